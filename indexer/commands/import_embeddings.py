"""The command ``tpips-index import-embeddings``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from indexer.codes import CODES_FROM_ROWS
from indexer.importing.config import ImportConfig, ImportSummary
from indexer.importing.model import IMPORTED_MODEL
from indexer.importing.vector_input import EmbeddingsError
from indexer.importing.vectors import import_vectors
from tpips_model.aspects import Aspect
from tpips_model.counted import counted
from tpips_model.terminal import INTERRUPTED

__all__ = ["import_embeddings"]


def import_embeddings(
    out: Annotated[Path, typer.Option(help="The index directory to make.")],
    aspect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ASPECT=FILE",
            help="An aspect's vectors: an npy file, a parquet file (FILE?column=NAME), a LAION folder with img_emb and "
            "metadata, or an export of tpips-index. May be given several times; the penalty needs overall=FILE.",
        ),
    ] = None,
    export: Annotated[
        str | None, typer.Option("--from", metavar="EXPORT", help="All aspects of what tpips-index export wrote.")
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option(
            metavar="FILE[?key=COLUMN]",
            help="Keys and metadata, row for row: a csv or parquet file, or a folder of metadata_0.parquet and so on. "
            "By default the table beside the first vectors; without one the images are numbered.",
        ),
    ] = None,
    pictures: Annotated[
        Path | None,
        typer.Option(help="The folder that the images' files are in. Without it hits have no pictures."),
    ] = None,
    normalise: Annotated[bool, typer.Option("--normalise", help="Scale every vector to unit length.")] = False,
    model_name: Annotated[
        str | None,
        typer.Option(help="The model that made the vectors, as tpips-index build takes it; needs its --fingerprint."),
    ] = None,
    fingerprint: Annotated[
        str | None,
        typer.Option(
            help="The model's fingerprint, as tpips-index info shows it. By default that of the export, else one of "
            "these vectors alone, so that no other index is taken to be of the same model."
        ),
    ] = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Make an index of vectors that are there already; row i of every file is the same image.

    For example: tpips-index import-embeddings --out my-index --aspect overall=clip.npy --keys photos.csv?key=id
    """
    config = ImportConfig(
        out=out,
        vectors=_vectors(aspect or ()),
        export=export,
        keys=keys,
        pictures=pictures,
        normalise=normalise,
        model_name=model_name,
        fingerprint=fingerprint,
        progress=progress,
    )
    try:
        summary = import_vectors(config)
    except KeyboardInterrupt:
        typer.echo("interrupted; there is no index yet, and the same command begins anew", err=True)
        raise typer.Exit(INTERRUPTED) from None
    for line in _import_lines(summary, out, pictures):
        typer.echo(line)


def _vectors(texts: Sequence[str]) -> tuple[tuple[Aspect, str], ...]:
    places: dict[str, tuple[Aspect, str]] = {}
    for aspect, place in map(_aspect_and_place, texts):
        if aspect.slug in places:
            raise EmbeddingsError(
                f"the aspect {aspect.text!r} is given twice: {places[aspect.slug][1]!r} and {place!r}; give it once"
            )
        places[aspect.slug] = aspect, place
    return tuple(places.values())


def _aspect_and_place(text: str) -> tuple[Aspect, str]:
    words, equals, place = text.partition("=")
    if not equals or not place:
        raise EmbeddingsError(f"--aspect {text!r} does not say where the vectors are; write --aspect ASPECT=FILE")
    return Aspect(words), place


def _import_lines(summary: ImportSummary, out: Path, pictures: Path | None) -> list[str]:
    model = summary.model
    names = ", ".join(aspect.text for aspect in summary.aspects)
    place = shlex.quote(str(out))
    keys = "numbered" if summary.key is None else f"keys from the column {summary.key!r}"
    lines = [f"imported {counted(summary.items, 'image')} of {model.dim:,} dimensions under {names}; {keys}"]
    if summary.left_out:
        lines.append(f"left out, since metadata are text and numbers: {', '.join(summary.left_out)}")
    if summary.missing:
        lines.append(
            f"{counted(summary.missing, 'names', 'name')} no file in the folder of pictures, such as "
            f"{summary.missing_example!r:.120}, and so no picture"
        )
    if summary.unsized:
        lines.append(
            f"{counted(summary.unsized, 'picture')} of unknown width and height, since no header tells: "
            f"{summary.unsized_example:.200}"
        )
    if not summary.pictured:
        lines.append(
            "no pictures are known, so hits have none; --pictures FOLDER and a column of paths would tell where"
        )
    elif pictures is None:
        lines.append(
            "where the pictures are is not known; import with --pictures FOLDER, or search with --data-root FOLDER"
        )
    if model.name == IMPORTED_MODEL:
        lines.append("the model is not known, so pictures of your own cannot be asked with, and keys can")
    if not any(aspect.is_overall for aspect in summary.aspects):
        lines.append("there is no overall, so there can be no overall penalty, no near-duplicates and no dedupe")
    if summary.items >= CODES_FROM_ROWS:
        lines.append(f"make codes for approximate search: tpips-index codes {place}")
    return [*lines, f"search it: tpips-index query {place} --term KEY:ASPECT"]
