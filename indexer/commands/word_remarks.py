"""What the model has to say of the words that pictures are to be indexed by."""

from __future__ import annotations

import typer

from indexer.building.build_config import BuildConfig
from indexer.directory import MANIFEST_FILE, read_manifest
from tpips_model.aspects import Aspect
from tpips_model.remarks import remarks_on
from tpips_model.terminal import printable

__all__ = ["tell_word_remarks"]


def tell_word_remarks(config: BuildConfig) -> None:
    """Print to standard error, a line for each, what the model that is to embed has to say of the aspects.

    Of aspects that the index has already only ``add`` is told, which asks for no others.

    Raises:
        AspectError: An aspect is no words.
        IndexDirectoryError: The index cannot be read.
    """
    manifest = read_manifest(config.out) if (config.out / MANIFEST_FILE).exists() else None
    indexed = manifest.aspects if manifest is not None else ()
    slugs = {aspect.slug for aspect in indexed}
    asked = [aspect for aspect in map(Aspect.of, config.aspects) if aspect.slug not in slugs]
    if config.new_source and not config.aspects:
        asked = list(indexed)
    name = config.model or (manifest.model.name if manifest is not None else "mini")
    for remark in remarks_on(name, asked):
        typer.echo(f"note: {printable(remark)}", err=True)
