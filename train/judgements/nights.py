"""NIGHTS, the 2AFC judgements of Fu et al. (NeurIPS 2023), as they are published.

A folder with ``data.csv`` (id, left_vote, right_vote, votes, ref_path, left_path, right_path, split, is_imagenet, …)
and the pictures its paths lead to. Votes are unanimous in the published data: left_vote and right_vote are 0 or 1, and
votes says how many people gave them.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tpips_model.aspects import OVERALL
from train.agreement import two_afc_votes
from train.judgements.picture_folder import PictureFolder, PicturePathError
from train.judgements.records import Judgement, JudgementDataError, JudgementSet, Refusal

__all__ = ["FEW_VOTES", "MIN_VOTES", "read_nights"]

# The authors train and evaluate on items with at least six votes only.
MIN_VOTES = 6
FEW_VOTES = f"NIGHTS item with fewer than {MIN_VOTES} votes"

_COLUMNS = ("id", "left_vote", "right_vote", "ref_path", "left_path", "right_path", "split")
_IMAGENET = {"true": "imagenet", "1": "imagenet", "false": "no-imagenet", "0": "no-imagenet"}


def read_nights(folder: Path, *, split: str = "test") -> JudgementSet:
    """Read NIGHTS' judgements under the aspect "overall"; pictures are looked for, but not opened.

    Args:
        folder: The one that holds ``data.csv``.
        split: ``"train"``, ``"val"`` or ``"test"``.

    Returns:
        2AFC judgements, the left picture first; the subset is ``nights``, or ``nights/imagenet`` and
        ``nights/no-imagenet`` where the table tells them apart. A refusal for each row that cannot be used.

    Raises:
        JudgementDataError: The folder does not hold NIGHTS, or not this split.
    """
    table = folder / "data.csv"
    pictures = PictureFolder(folder)
    judgements: list[Judgement] = []
    refusals: list[Refusal] = []
    dropped: Counter[str] = Counter()
    splits: Counter[str] = Counter()
    try:
        with open(table, encoding="utf-8-sig", newline="") as stream:
            rows = csv.DictReader(stream)
            missing = [name for name in _COLUMNS if name not in (rows.fieldnames or ())]
            if missing:
                raise JudgementDataError(f"{table} has no column {', '.join(missing)}; give the folder of NIGHTS")
            for row in rows:
                splits[row["split"]] += 1
                if row["split"] != split:
                    continue
                try:
                    if _count(row, "votes", otherwise=MIN_VOTES) < MIN_VOTES:
                        dropped[FEW_VOTES] += 1
                    else:
                        judgements.append(_judgement(row, pictures))
                except (PicturePathError, ValueError) as error:
                    refusals.append(Refusal(f"data.csv:{rows.line_num}", str(error)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise JudgementDataError(f"cannot read {table}: {error}; give the folder of NIGHTS, with data.csv") from error
    if split not in splits:
        raise JudgementDataError(
            f"{table} has no row of split {split!r:.40}; give one of {', '.join(sorted(map(str, splits))):.200}, as in "
            "nights:DIR@test"
        )
    return JudgementSet(tuple(judgements), tuple(refusals), dropped, "nights")


def _judgement(row: Mapping[str, str | None], pictures: PictureFolder) -> Judgement:
    left, right = _count(row, "left_vote"), _count(row, "right_vote")
    if left + right <= 0:
        raise ValueError(f"left_vote and right_vote are {left} and {right}; expected one vote at least")
    votes = tuple(two_afc_votes([right / (left + right)])[0].tolist())
    triplet = tuple(pictures.picture(row[name]) for name in ("ref_path", "left_path", "right_path"))
    part = _IMAGENET.get((row.get("is_imagenet") or "").strip().lower())
    subset = f"nights/{part}" if part else "nights"
    raters = _count(row, "votes") if row.get("votes") else None
    return Judgement(f"nights/{row['id']}", triplet, OVERALL, votes, subset, raters)


def _count(row: Mapping[str, str | None], name: str, *, otherwise: int | None = None) -> int:
    """Read a whole number, which may stand there as ``1.0``."""
    text = row.get(name)
    if text in (None, "") and otherwise is not None:
        return otherwise
    try:
        value = float(text or "")
    except ValueError:
        value = -1.0
    if not (0 <= value < 1e6 and value.is_integer()):
        raise ValueError(f"{name} is {text!r:.40}; expected a whole number")
    return int(value)
