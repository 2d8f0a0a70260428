"""Checking the files of an index: checksums, layout, items, ledgers and tombstones, without model or pictures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from indexer.directory import IndexDirectory
from indexer.file_checks import check_file, check_part, read_parquet, removed_rows
from indexer.file_names import items_file
from indexer.importing.model import IMPORTED_KIND
from indexer.manifest import IndexDirectoryError, PartRecord
from indexer.verifying.check import Faults
from tpips_model.counted import counted
from tpips_model.progress_bar import ProgressBar

__all__ = ["StoredIndex", "file_faults", "item_faults", "layout_faults", "ledger_faults", "removal_faults"]


@dataclass
class StoredIndex:
    """An index that is being checked.

    Attributes:
        index: The index, of whose files nothing is believed.
        damaged: Names of files that are known to be damaged, and are not looked into again.
        progress: Whether progress bars are shown on standard error.
    """

    index: IndexDirectory
    damaged: set[str] = field(default_factory=set)
    progress: bool = False
    _keys: tuple[int, pa.ChunkedArray] | None = None

    def sound(self, *names: str) -> bool:
        """Tell whether none of these files is known to be damaged."""
        return self.damaged.isdisjoint(names)

    def sound_parts(self) -> list[PartRecord]:
        """Return the parts of which can be read what items they have, and which of those are removed."""
        parts = self.index.manifest.parts
        return [part for part in parts if self.sound(items_file(part.id), part.removal_file or "")]

    def first_row(self, part: PartRecord) -> int:
        """Return the row of a part's first item."""
        parts = self.index.manifest.parts
        return sum(one.rows for one in parts[: parts.index(part)])

    def live(self, part: PartRecord) -> NDArray[np.bool_]:
        """Return which of a part's rows are not removed; all, if the file that says so is damaged."""
        kept = np.ones(part.rows, bool)
        if part.removal_file is not None and self.sound(part.removal_file):
            kept[removed_rows(self.index.path, part)] = False
        return kept

    def key(self, part: PartRecord, row: int) -> str:
        """Name one row of a part: its key in quotation marks, or its number where the items are damaged."""
        if not self.sound(items_file(part.id)):
            return f"row {row:,} of part {part.id}"
        if self._keys is None or self._keys[0] != part.id:
            self._keys = (part.id, self.index.part_items(part, ["key"])["key"])
        return repr(self._keys[1][row].as_py())

    def bar(self, total: int, label: str, unit: str) -> ProgressBar:
        """Return a progress bar."""
        return ProgressBar(
            total=total, desc=label, unit=unit, unit_scale=unit == "B", unit_divisor=1024, disable=not self.progress
        )

    def left_out(self, count: int) -> str:
        """Say, as the end of a sentence, how many damaged files a check left out."""
        return f"; {counted(count, 'damaged file')} left out" if count else ""


def file_faults(stored: StoredIndex) -> Faults:
    """Find the files that are missing, or not of the size and checksum that the manifest says."""
    index = stored.index
    named = dict(index.manifest.files)
    for part in index.manifest.parts:
        named.update(part.files)
    size = sum(record.bytes for record in named.values())
    with stored.bar(size, "checksums", "B") as bar:
        for name, record in named.items():
            try:
                check_file(index.path / name, record, verify=True)
            except (IndexDirectoryError, OSError) as error:
                stored.damaged.add(name)
                yield str(error)
            bar.update(record.bytes)
    return f"size and SHA-256 of {len(named):,} files, {size:,} bytes"


def layout_faults(stored: StoredIndex) -> Faults:
    """Find the parts whose files do not hold what the manifest says: other rows, columns or types."""
    parts = stored.index.manifest.parts
    left_out = 0
    for part in parts:
        if not stored.sound(*part.files):
            left_out += 1
            continue
        try:
            check_part(stored.index.path, part, stored.index.manifest)
        except Exception as error:  # numpy and pyarrow have many kinds for a damaged header
            stored.damaged.update(part.files)
            yield str(error) if isinstance(error, IndexDirectoryError) else f"part {part.id} is damaged: {error}"
    end = f"; {left_out:,} with damaged files left out" if left_out else ""
    return f"rows, columns and types of {counted(len(parts) - left_out, 'part')}{end}"


def removal_faults(stored: StoredIndex) -> Faults:
    """Find the files that do not say which rows are removed as they should."""
    removed = 0
    for part in stored.index.manifest.parts:
        if part.removal_file is None or not stored.sound(part.removal_file):
            continue
        try:
            removed += len(removed_rows(stored.index.path, part))
        except IndexDirectoryError as error:
            stored.damaged.add(part.removal_file)
            yield str(error)
    return counted(removed, "removed item")


def ledger_faults(stored: StoredIndex) -> Faults:
    """Find the error ledgers that cannot be read."""
    lines = left_out = 0
    for part in stored.index.manifest.parts:
        if not stored.sound(part.ledger_file):
            left_out += 1
            continue
        try:
            lines += read_parquet(stored.index.path / part.ledger_file, None).num_rows
        except IndexDirectoryError as error:
            stored.damaged.add(part.ledger_file)
            yield str(error)
    return f"{counted(lines, 'line')}{stored.left_out(left_out)}"


def item_faults(stored: StoredIndex) -> Faults:
    """Find the items that cannot be told apart, or found: keys, files, sizes and metadata."""
    index = stored.index
    hashes: list[NDArray[np.int64]] = []
    columns: set[str] = set()
    left_out = len(index.manifest.parts) - len(stored.sound_parts())
    count = 0
    with stored.bar(sum(part.rows for part in stored.sound_parts()), "items", " items") as bar:
        for part in stored.sound_parts():
            try:
                table = index.part_items(part)
            except IndexDirectoryError as error:
                stored.damaged.add(items_file(part.id))
                yield str(error)
                continue
            columns.update(table.column_names[7:])
            live = table.filter(pa.array(stored.live(part)))
            hashes.append(np.fromiter(map(hash, live["key"].to_pylist()), np.int64, live.num_rows))
            count += live.num_rows
            yield from _odd_rows(index, part, live)
            bar.update(part.rows)
    yield from _repeats(stored, hashes)
    what = f"keys, files and {counted(len(columns), 'metadata column')}"
    return f"{what} of {counted(count, 'item')}{stored.left_out(left_out)}"


def _odd_rows(index: IndexDirectory, part: PartRecord, items: pa.Table) -> Iterator[str]:
    """Find items without a key, of a key that is not their source's, of no size, or whose file is outside its root."""
    prefix = index.manifest.sources[part.source].prefix
    keys = items["key"]
    if prefix:
        strange = pc.invert(pc.starts_with(keys, f"{prefix}/"))
        for row in items.filter(strange).to_pylist():
            yield f"item {row['key']!r} has a key that does not begin with its source's {prefix + '/'!r}"
    if pc.any(pc.equal(keys, "")).as_py():
        yield f"part {part.id} has an item whose key is empty"
    # Imported items may have no picture, or one whose sides nobody has looked at.
    least = 0 if index.manifest.sources[part.source].kind == IMPORTED_KIND else 1
    small = pc.less(pc.min_element_wise(items["width"], items["height"], pc.add(items["size"], least)), least)
    for row in items.filter(small).to_pylist():
        yield f"item {row['key']!r} is said to have {row['width']}×{row['height']} pixels in {row['size']} bytes"
    seen: set[str] = set()
    for key, file in zip(keys.to_pylist(), items["file"].to_pylist(), strict=True):
        if file and file not in seen:
            seen.add(file)
            try:
                index.item_path({"key": key, "file": file})
            except IndexDirectoryError as error:
                yield str(error)


def _repeats(stored: StoredIndex, hashes: list[NDArray[np.int64]]) -> Iterator[str]:
    """Find the keys that several live items have; hashes keep the memory small, the keys themselves decide."""
    ordered = np.sort(np.concatenate([np.empty(0, np.int64), *hashes]))
    suspects = set(ordered[1:][np.diff(ordered) == 0].tolist())
    if not suspects:
        return
    places: dict[str, list[str]] = defaultdict(list)
    for part in stored.sound_parts():
        live = np.flatnonzero(stored.live(part))
        for row, key in zip(live, stored.index.part_items(part, ["key"])["key"].take(live).to_pylist(), strict=True):
            if hash(key) in suspects:
                places[key].append(f"row {row:,} of part {part.id}")
    for key, rows in places.items():
        if len(rows) > 1:
            yield f"{len(rows):,} items have the key {key!r}: {', '.join(rows[:4])}{', …' if len(rows) > 4 else ''}"
