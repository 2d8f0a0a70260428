"""The tables of Open Images: how a picture must be turned, who made it under which licence, what people saw in it."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from indexer.columns import Scalar
from indexer.sources.source import SourceError

__all__ = ["ImageRecord", "OpenImagesTables", "image_number", "table_kind"]

# Few licences and rotations, each of which is kept once a block.
_COLUMN_TYPES = {
    "Rotation": pa.dictionary(pa.int32(), pa.binary()),
    "License": pa.dictionary(pa.int32(), pa.binary()),
    "Author": pa.binary(),
    "Title": pa.binary(),
    "OriginalLandingURL": pa.binary(),
}
_DIGITS = 16
_DIGIT_VALUES = np.full(256, 255, np.uint8)
_DIGIT_VALUES[np.frombuffer(b"0123456789abcdefABCDEF", np.uint8)] = [*range(16), *range(10, 16)]
_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")
_SEPARATOR = "; "


@dataclass(frozen=True)
class ImageRecord:
    """What the tables say of one picture; ``turn`` is in degrees counter-clockwise."""

    turn: int
    metadata: dict[str, Scalar]


def image_number(name: str) -> int | None:
    """Return a picture's id, 16 hexadecimal digits, as a number.

    >>> image_number("000002b66c9c498e"), image_number("cat")
    (2982529485198, None)
    """
    return int(name, 16) if re.fullmatch("[0-9A-Fa-f]{16}", name) else None


def table_kind(path: Path) -> str | None:
    """Tell by a csv file's first line which table it is: "images", "labels", "classes" or ``None``."""
    try:
        with open(path, "rb") as stream:
            line = stream.readline(1 << 16).decode("utf-8-sig", "replace").strip()
    except OSError:
        return None
    fields = line.split(",")
    if "ImageID" in fields and "Rotation" in fields:
        return "images"
    if fields[:2] == ["ImageID", "Source"] and "LabelName" in fields and "XMin" not in fields:
        return "labels"
    return "classes" if fields[0] == "LabelName" or fields[0].startswith("/m/") else None


class OpenImagesTables:
    """The tables that were given, held compactly: some 200 bytes for each of 1.7 million pictures with five labels.

    Args:
        images: Tables of pictures.
        labels: Tables of labels that people confirmed.
        classes: Tables of the labels' names.

    Raises:
        SourceError: One cannot be read.
    """

    def __init__(self, images: Sequence[Path], labels: Sequence[Path], classes: Sequence[Path]) -> None:
        numbers, blocks = _image_blocks(images)
        self._order = np.argsort(numbers, kind="stable")
        self._numbers = numbers[self._order]
        self._columns = {
            name: pa.chunked_array([block[name] for block in blocks], _COLUMN_TYPES[name]) for name in _COLUMN_TYPES
        }
        self._names = dict(_class_names(classes))
        self._labelled, self._labels, self._label_names = _label_table(labels)

    def record(self, number: int) -> ImageRecord | None:
        """Return what is known of a picture, or ``None`` if no table of pictures has it."""
        at = int(np.searchsorted(self._numbers, np.uint64(number)))
        if at == len(self._numbers) or int(self._numbers[at]) != number:
            return None
        row = int(self._order[at])
        values = {name: _text(column[row].as_py()) for name, column in self._columns.items()}
        turn = _turn(values["Rotation"])
        metadata: dict[str, Scalar] = {
            "license": values["License"],
            "author": values["Author"],
            "title": values["Title"],
            "landing_url": values["OriginalLandingURL"],
            "rotation": turn,
            "labels": self._labels_of(number),
        }
        return ImageRecord(turn or 0, {name: value for name, value in metadata.items() if value is not None})

    def _labels_of(self, number: int) -> str | None:
        start, stop = (int(np.searchsorted(self._labelled, np.uint64(number), side=side)) for side in _SIDES)
        machine = dict.fromkeys(self._label_names[label] for label in self._labels[start:stop].tolist())
        return _SEPARATOR.join(self._names.get(name, name) for name in machine) or None


def _image_blocks(paths: Sequence[Path]) -> tuple[NDArray[np.uint64], list[dict[str, pa.Array]]]:
    numbers, blocks = [np.empty(0, np.uint64)], []
    for path in paths:
        for ids, columns in _blocks(path, list(_COLUMN_TYPES)):
            numbers.append(ids)
            blocks.append({name: columns[name].cast(kind) for name, kind in _COLUMN_TYPES.items()})
    return np.concatenate(numbers), blocks


def _label_table(paths: Sequence[Path]) -> tuple[NDArray[np.uint64], NDArray[np.int32], list[str]]:
    numbers, labels = [np.empty(0, np.uint64)], [np.empty(0, np.int32)]
    known: dict[str, int] = {}
    for path in paths:
        for ids, columns in _blocks(path, ["LabelName", "Confidence"]):
            names = columns["LabelName"].fill_null(b"").dictionary_encode()
            sure = columns["Confidence"].fill_null(b"").dictionary_encode()
            codes = [known.setdefault(_text(name) or "", len(known)) for name in names.dictionary.to_pylist()]
            kept = np.array([_is_one(value) for value in sure.dictionary.to_pylist()], bool)[sure.indices.to_numpy()]
            numbers.append(ids[kept])
            labels.append(np.array(codes, np.int32)[names.indices.to_numpy()][kept])
    joined = np.concatenate(numbers)
    order = np.argsort(joined, kind="stable")
    return joined[order], np.concatenate(labels)[order], list(known)


def _blocks(path: Path, columns: Sequence[str]) -> Iterator[tuple[NDArray[np.uint64], dict[str, pa.Array]]]:
    """Give a table block by block: the ids, and the columns asked for; rows without an id are left out."""
    lenient = pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda row: "skip")
    asked = ["ImageID", *columns]
    # As bytes, so that one name that is not UTF-8 costs nothing but its own look.
    types = pacsv.ConvertOptions(
        include_columns=asked, include_missing_columns=True, column_types=dict.fromkeys(asked, pa.binary())
    )
    try:
        with pacsv.open_csv(path, parse_options=lenient, convert_options=types) as reader:
            for batch in reader:
                numbers, kept = _numbers(batch.column("ImageID"))
                if len(kept):
                    yield numbers, {name: batch.column(name).take(pa.array(kept)) for name in columns}
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"cannot read the table {path} ({error}); fetch it again") from error


def _numbers(ids: pa.BinaryArray) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the numbers of the ids that are 16 hexadecimal digits, and where those stand."""
    at = np.flatnonzero(pc.binary_length(ids).fill_null(0).to_numpy(zero_copy_only=False) == _DIGITS)
    text = ids.take(pa.array(at)).cast(pa.binary(_DIGITS))
    digits = _DIGIT_VALUES[np.frombuffer(b"".join(text.to_pylist()), np.uint8).reshape(-1, _DIGITS)]
    good = (digits < _DIGITS).all(axis=1)
    numbers = np.zeros(int(good.sum()), np.uint64)
    for column in digits[good].T:
        numbers = (numbers << np.uint64(4)) | column.astype(np.uint64)
    return numbers, at[good].astype(np.int64)


def _class_names(paths: Sequence[Path]) -> Iterator[tuple[str, str]]:
    for path in paths:
        try:
            with open(path, encoding="utf-8-sig", errors="replace", newline="") as stream:
                for row in csv.reader(stream):
                    if len(row) >= 2 and row[0] != "LabelName":
                        yield row[0].strip(), row[1].strip()
        except (OSError, csv.Error) as error:
            raise SourceError(f"cannot read the table {path} ({error}); fetch it again") from error


def _turn(text: str | None) -> int | None:
    try:
        turn = float(text or "nan")
    except ValueError:
        return None
    return int(turn) % 360 if turn == turn and turn % 90 == 0 else None


def _is_one(value: bytes | None) -> bool:
    try:
        return float(value or b"0") == 1.0
    except ValueError:
        return False


def _text(value: bytes | None) -> str | None:
    return (value or b"").decode("utf-8", "replace").strip() or None
