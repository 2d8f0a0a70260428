"""Making an index of vectors that are there already, part by part; it appears when it is whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from indexer.columns import Item, item_table
from indexer.file_names import items_file, vectors_file
from indexer.given_path import given_path, resolved_path
from indexer.importing.config import ImportConfig, ImportSummary
from indexer.importing.items import ImportedItems, PictureFolder, refuse_doubled_keys
from indexer.importing.model import IMPORTED_KIND, IMPORTED_MODEL
from indexer.importing.places import VectorPlace, export_at, open_keys, open_vectors
from indexer.importing.sizes import PictureSizes
from indexer.importing.unit_halves import unit_halves
from indexer.importing.vector_input import EmbeddingsError, rechunked
from indexer.manifest import Manifest, ModelRecord, PartRecord, SourceRecord
from indexer.manifest_file import MANIFEST_FILE
from indexer.output_folder import output_folder
from indexer.part import write_array, write_items, write_ledger, write_manifest
from tpips_model.aspects import Aspect, new_aspects, unique_aspects
from tpips_model.progress_bar import ProgressBar

__all__ = ["import_vectors"]

# Where the pictures are, if nobody says: a folder that is not there.
NO_PICTURES = "pictures"
# Bounds what is in memory of a part: 128 MB where the vectors come in double precision.
PART_VALUES = 1 << 24
MAX_PART_ROWS = 65_536


def import_vectors(config: ImportConfig) -> ImportSummary:
    """Make an index of vectors that somebody has already.

    Raises:
        EmbeddingsError: The inputs do not fit together, a vector or key cannot be stored, or there is an index already.
        ExportError: An input says that it is an export, and is damaged.
        SourceError: A column is not there, or it is not clear which one names the pictures.
        IndexDirectoryError: The output folder cannot be used or written.
        AspectError: Two aspects cannot be told from each other.
    """
    out = given_path(config.out, what="the output folder", kind=EmbeddingsError)
    _refuse_index(out)
    places = _open_places(config)
    folder = _picture_folder(config.pictures)
    items, rest = _items(config, places, folder)
    _check_counts(places, items)
    model = _model(config, places)
    refuse_doubled_keys(items)
    root = NO_PICTURES if folder is None else os.path.relpath(folder.root, out.resolve())
    with output_folder(out, checked=False):
        _refuse_index(out)  # one that another import has made meanwhile
        sizes = None if folder is None else PictureSizes(folder)
        rows = _Rows(places, items, rest, sizes, normalise=config.normalise)
        parts: list[PartRecord] = []
        with ProgressBar(total=items.rows, desc="importing", unit=" items", disable=not config.progress) as bar:
            for start in range(0, items.rows, rows.most):
                parts.append(rows.write_part(out, len(parts), start, bar.update))
        rows.end()
        if not model.fingerprint:
            model = _with_fingerprint(model, places, parts)
        source = SourceRecord(IMPORTED_KIND, Path(root).as_posix())
        write_manifest(out, Manifest(model, (source,), tuple(place.aspect for place in places), tuple(parts)))
    return ImportSummary(
        items=items.rows,
        aspects=tuple(place.aspect for place in places),
        model=model,
        key=items.key,
        pictured=rows.pictured,
        missing=0 if folder is None else folder.missing,
        missing_example="" if folder is None else folder.example,
        unsized=0 if sizes is None else sizes.unknown,
        unsized_example="" if sizes is None else sizes.example,
        left_out=() if items.table is None else items.table.left_out,
    )


def _refuse_index(out: Path) -> None:
    if (out / MANIFEST_FILE).exists():
        raise EmbeddingsError(
            f"there is an index at {out} already, and an import makes a new one; give another folder with --out, and "
            "put the two together with tpips-index merge if they are of one model"
        )


def _open_places(config: ImportConfig) -> list[VectorPlace]:
    asked = dict(config.vectors)
    if config.export is not None:
        asked = {**dict.fromkeys(export_at(config.export).vectors, config.export), **asked}
    if not asked:
        raise EmbeddingsError(
            "nothing is given to import; name vectors with --aspect ASPECT=FILE, or an export with --from"
        )
    places = [open_vectors(aspect, asked[aspect]) for aspect in _overall_first(asked, config.vectors)]
    for place in places:
        if place.vectors.dim != places[0].vectors.dim:
            raise EmbeddingsError(
                f"{place.vectors.shown} holds vectors of {place.vectors.dim:,} dimensions, and "
                f"{places[0].vectors.shown} of {places[0].vectors.dim:,}; all aspects of an index are of one model"
            )
    return places


def _overall_first(asked: Mapping[Aspect, str], given: Sequence[tuple[Aspect, str]]) -> tuple[Aspect, ...]:
    """Return the aspects in the order in which an index has them.

    Raises:
        AspectError: Two of them share a slug, or one that is given holds characters that nobody sees.
        EmbeddingsError: One is given twice.
    """
    aspects = new_aspects(aspect for aspect, _ in given)
    for aspect in aspects:
        if aspects.count(aspect) > 1:
            raise EmbeddingsError(f"the aspect {aspect.text!r} is given twice; give each its own vectors")
    return unique_aspects(
        [*(aspect for aspect in asked if aspect.is_overall), *(aspect for aspect in asked if not aspect.is_overall)]
    )


def _picture_folder(pictures: Path | None) -> PictureFolder | None:
    if pictures is None:
        return None
    given = given_path(pictures, what="the folder of pictures", kind=EmbeddingsError)
    if not given.is_dir():
        raise EmbeddingsError(f"the folder of pictures {given} does not exist; give another one with --pictures")
    return PictureFolder(resolved_path(given, what="the folder of pictures", kind=EmbeddingsError))


def _items(
    config: ImportConfig, places: Sequence[VectorPlace], folder: PictureFolder | None
) -> tuple[ImportedItems, list[ImportedItems]]:
    """Return the items, and those that stand beside other aspects' vectors, to be compared with them."""
    tables = [(place.table, place.options, place.vectors.rows) for place in places if place.table is not None]
    if config.keys is not None:
        table, options = open_keys(config.keys)
        tables.insert(0, (table, options, table.rows))
    if not tables:
        return ImportedItems(None, places[0].vectors.rows, pictures=folder), []
    table, options, rows = tables[0]
    items = ImportedItems(table, rows, key=options.get("key"), image=options.get("image"), pictures=folder)
    others = [(other, rows) for other, _, rows in tables[1:] if items.key in other.columns]
    return items, [ImportedItems(other, rows, key=items.key, pictures=folder) for other, rows in others]


def _check_counts(places: Sequence[VectorPlace], items: ImportedItems) -> None:
    counts = {place.vectors.shown: place.vectors.rows for place in places}
    if items.table is not None:
        counts.setdefault(items.table.shown, items.rows)
    if len({items.rows, *counts.values()}) > 1:
        told = ", ".join(f"{count:,} in {shown}" for shown, count in counts.items())
        raise EmbeddingsError(f"the inputs have different numbers of rows: {told}; row i of each must be the same item")
    if items.rows == 0:
        raise EmbeddingsError(f"{next(iter(counts))} holds no vectors, so there is nothing to import")


def _model(config: ImportConfig, places: Sequence[VectorPlace]) -> ModelRecord:
    """Return the model as far as it is known; an empty fingerprint is still to be made."""
    records = [place.record.model for place in places if place.record is not None]
    prints = sorted({record.fingerprint for record in records})
    if len(prints) > 1 and config.fingerprint is None:
        raise EmbeddingsError(
            f"the inputs were made by different models (fingerprints {prints[0]} and {prints[1]}), whose vectors "
            "cannot be compared; give those of one model, or say what they are with --fingerprint"
        )
    known = records[0] if len(records) == len(places) else None
    overall = any(place.aspect.is_overall for place in places)
    return ModelRecord(
        name=config.model_name or (known.name if known else IMPORTED_MODEL),
        fingerprint=config.fingerprint or (known.fingerprint if known else ""),
        dim=places[0].vectors.dim,
        prompt_template=known.prompt_template if known else "",
        recommended_overall_penalty=known.recommended_overall_penalty if known and overall else 0.0,
    )


def _with_fingerprint(model: ModelRecord, places: Sequence[VectorPlace], parts: Sequence[PartRecord]) -> ModelRecord:
    """Return the model with a fingerprint of the vectors themselves, so that nobody else's are taken for its own."""
    digest = hashlib.sha256(f"{model.name}\0{model.dim}".encode())
    for place in places:
        digest.update(f"\0{place.aspect.slug}".encode())
        for part in parts:
            digest.update(bytes.fromhex(part.files[vectors_file(place.aspect, part.id)].sha256))
    return ModelRecord(
        model.name,
        f"imported:{digest.hexdigest()[:16]}",
        model.dim,
        model.prompt_template,
        model.recommended_overall_penalty,
    )


class _Rows:
    """All inputs side by side, read part by part.

    Args:
        places: The vectors.
        items: The items.
        others: Items that stand beside other aspects' vectors, whose keys must be the same.
        sizes: Finds the pictures' sizes, if it is known where they are.
        normalise: Whether to scale every vector to unit length.
    """

    def __init__(
        self,
        places: Sequence[VectorPlace],
        items: ImportedItems,
        others: Sequence[ImportedItems],
        sizes: PictureSizes | None,
        *,
        normalise: bool,
    ) -> None:
        self.most = max(1, min(MAX_PART_ROWS, PART_VALUES // places[0].vectors.dim))
        self.pictured = 0
        self._sizes = sizes
        self._normalise = normalise
        self._places = [(place, rechunked(place.vectors, self.most)) for place in places]
        self._items, self._read = items, items.read_items()
        self._others = [(other, other.read_keys()) for other in others]

    def write_part(self, out: Path, part: int, start: int, advance: Callable[[int], object]) -> PartRecord:
        """Write the next rows as a part; until the manifest names it, it counts for nothing."""
        items = list(islice(self._read, self.most))
        keys = [item.key for item in items]
        for other, its_keys in self._others:
            _compare(self._items, other, keys, list(islice(its_keys, self.most)), first=start)
        items = self._sized(items, advance)
        self.pictured += sum(bool(item.file) for item in items)
        files = {items_file(part): write_items(out, part, item_table(items)), **write_ledger(out, part, ())}
        for place, blocks in self._places:
            # One aspect at a time, so that at most one part of vectors is in memory.
            shown = place.vectors.shown
            halves = unit_halves(next(blocks), keys=keys, first=start, shown=shown, normalise=self._normalise)
            name = vectors_file(place.aspect, part)
            files[name] = write_array(out / name, halves)
        shard = f"rows {start} to {start + len(items)}"
        return PartRecord(id=part, shards=(shard,), rows=len(items), errors=0, files=files)

    def _sized(self, items: list[Item], advance: Callable[[int], object]) -> list[Item]:
        if self._sizes is None:
            advance(len(items))
            return items
        sized: list[Item] = []
        for item in self._sizes.of(items):  # by far the longest of all that is done to a part
            sized.append(item)
            advance(1)
        return sized

    def end(self) -> None:
        """Check that nothing is left to read.

        Raises:
            EmbeddingsError: An input holds more rows, or fewer, than it said.
        """
        rest: list[tuple[str, Iterator[Any]]] = [(place.vectors.shown, blocks) for place, blocks in self._places]
        tables = [(self._items, self._read), *self._others]
        rest += [(one.table.shown, rows) for one, rows in tables if one.table is not None]
        for shown, rows in rest:
            if next(rows, None) is not None:
                raise EmbeddingsError(f"{shown} holds more rows than it said when it was opened; import again")


def _compare(items: ImportedItems, other: ImportedItems, keys: list[str], own: list[str], *, first: int) -> None:
    """Refuse vectors whose rows stand in another order than the items."""
    for row, (key, its_key) in enumerate(zip(keys, own, strict=True), first):
        if key != its_key:
            assert items.table is not None
            assert other.table is not None
            raise EmbeddingsError(
                f"row {row:,} (counted from 0) is {key!r:.200} in {items.table.shown}, and {its_key!r:.200} in "
                f"{other.table.shown}; row i of each must be the same item"
            )
