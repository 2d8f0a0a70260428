"""Judgements as JSON lines, in the layout of the TPIPS authors' training data.

One item a line::

    {"p0_path": "a/0.png", "p1_path": "a/1.png", "p2_path": "a/2.png",
     "factors": [{"name": "lighting", "label": "p2", "probs": [0.0, 0.2, 0.8]}]}

Ours beyond it, all optional: "id", "subset", a factor's "raters" (how many valid votes its probs rest on), and 2AFC
items, which have "ref_path", "p0_path", "p1_path", labels "p0" or "p1" and two probs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from train.judgements.item_record import RecordError, factor_records, item_judgements, words
from train.judgements.json_lines import numbered_objects
from train.judgements.picture_folder import PictureFolder, PicturePathError
from train.judgements.picture_sources import FilePicture
from train.judgements.records import Judgement, JudgementDataError, JudgementSet, PictureSource, Refusal

__all__ = ["PATH_FIELDS", "items", "line_pictures", "read_triplet_lines", "triplet_line"]

# How many members a label may name -> the fields of the three pictures, in the order of Judgement.pictures
PATH_FIELDS: Mapping[int, tuple[str, str, str]] = {
    3: ("p0_path", "p1_path", "p2_path"),
    2: ("ref_path", "p0_path", "p1_path"),
}


def read_triplet_lines(path: Path, *, images_root: Path | None = None) -> JudgementSet:
    """Read a file of JSON lines; pictures are looked for, but not opened.

    Args:
        path: The file.
        images_root: What paths are relative to; by default the file's folder. None is followed out of it.

    Returns:
        Judgements, and a refusal for each line that cannot be used.

    Raises:
        JudgementDataError: The file or the pictures' folder cannot be read, or the file begins as one of votes.
    """
    folder = PictureFolder(images_root if images_root is not None else path.parent)
    judgements: list[Judgement] = []
    refusals: list[Refusal] = []
    dropped: Counter[str] = Counter()
    seen: dict[str, str] = {}
    for where, record in numbered_objects(path):
        if isinstance(record, Refusal):
            refusals.append(record)
            continue
        if not judgements and "factors" not in record and {"session", "answers"} <= record.keys():
            raise JudgementDataError(f"{path}: these look like votes of the app; write votes:{path}")
        try:
            item = words(record, "id", otherwise=f"{path.stem}:{where.rpartition(':')[2]}")
            if seen.setdefault(item, where) != where:
                raise RecordError(f"the id {item!r} stands on {seen[item]} already; put all of its factors on one line")
            judgements += _line_judgements(record, item, folder, dropped)
        except (RecordError, PicturePathError) as error:
            refusals.append(Refusal(where, str(error)))
    return JudgementSet(tuple(judgements), tuple(refusals), +dropped, path.stem)


def triplet_line(judgements: Iterable[Judgement], paths: Mapping[PictureSource, str]) -> dict[str, Any]:
    """Return one item's judgements as the record of a line.

    Args:
        judgements: All of one item, and of one kind.
        paths: Picture → its path in the file.
    """
    held = list(judgements)
    first = held[0]
    record: dict[str, Any] = {"id": first.item}
    if first.subset:
        record["subset"] = first.subset
    for field, picture in zip(PATH_FIELDS[len(first.votes)], first.pictures, strict=True):
        record[field] = paths[picture]
    return record | {"factors": factor_records(held)}


def items(judgements: Iterable[Judgement]) -> Iterator[list[Judgement]]:
    """Give the judgements item by item; those of one item stand together in a JudgementSet."""
    for _, group in groupby(judgements, key=lambda judgement: (judgement.item, judgement.kind, judgement.subset)):
        yield list(group)


def line_pictures(record: Mapping[str, Any], folder: PictureFolder) -> tuple[tuple[FilePicture, ...], int]:
    """Return a line's three pictures and how many members a label may name: two if there is a reference, else three.

    Raises:
        RecordError: A path is missing.
        PicturePathError: A picture is not there.
    """
    members = 2 if "ref_path" in record else 3
    missing = [field for field in PATH_FIELDS[members] if field not in record]
    if missing:
        raise RecordError(f"the line has no {', '.join(missing)}; expected {', '.join(PATH_FIELDS[members])}")
    return tuple(folder.picture(record[field]) for field in PATH_FIELDS[members]), members


def _line_judgements(
    record: Mapping[str, Any], item: str, folder: PictureFolder, dropped: Counter[str]
) -> list[Judgement]:
    pictures, members = line_pictures(record, folder)
    subset = words(record, "subset", otherwise="")
    return item_judgements(record, item=item, pictures=pictures, members=members, subset=subset, dropped=dropped)
