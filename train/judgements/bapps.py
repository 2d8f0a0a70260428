"""BAPPS, the 2AFC judgements of Zhang et al. (CVPR 2018), as they are published.

A folder ``2afc`` with ``val`` (traditional, cnn, superres, deblur, color, frameinterp) and ``train`` (traditional, cnn,
mix); in each subset ``ref``, ``p0``, ``p1`` (pictures of the same names) and ``judge`` (``NAME.npy``, the share of
people who called p1 closer to the reference).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tpips_model.aspects import OVERALL
from tpips_model.images import IMAGE_SUFFIXES
from train.agreement import two_afc_votes
from train.judgements.picture_folder import PictureFolder, PicturePathError
from train.judgements.records import Judgement, JudgementDataError, JudgementSet, Refusal

__all__ = ["BAPPS_RATERS", "read_bapps"]

# split -> how many people judged each item
BAPPS_RATERS = {"train": 2, "val": 5}
_PARTS = ("ref", "p0", "p1", "judge")
# An array of one number has 132 bytes.
_MAX_JUDGE_BYTES = 4096


def read_bapps(folder: Path, *, split: str = "val") -> JudgementSet:
    """Read BAPPS' 2AFC judgements under the aspect "overall"; pictures are looked for, but not opened.

    Ties stay, as in the published evaluation: there, they give every metric one half.

    Args:
        folder: The one that holds ``2afc``, or ``2afc`` itself.
        split: ``"val"`` or ``"train"``.

    Returns:
        2AFC judgements whose subset is ``bapps/cnn`` and so on, and a refusal for each item that cannot be used.

    Raises:
        JudgementDataError: The folder does not hold BAPPS.
    """
    root = next((place for place in (folder / "2afc", folder) if (place / split).is_dir()), None)
    if split not in BAPPS_RATERS or root is None:
        raise JudgementDataError(
            f"{folder} holds no BAPPS split {split!r:.40}; give its folder 2afc with val/cnn/ref and so on, and for "
            "the training part bapps:DIR@train"
        )
    judgements: list[Judgement] = []
    refusals: list[Refusal] = []
    for subset in sorted(path for path in (root / split).iterdir() if path.is_dir()):
        missing = [part for part in _PARTS if not (subset / part).is_dir()]
        if missing:
            refusals.append(Refusal(f"{split}/{subset.name}", f"the subset has no folder {', '.join(missing)}"))
            continue
        for found in _read_subset(PictureFolder(root), split, subset):
            (judgements if isinstance(found, Judgement) else refusals).append(found)  # type: ignore[arg-type]
    return JudgementSet(tuple(judgements), tuple(refusals), name="bapps")


def _read_subset(pictures: PictureFolder, split: str, subset: Path) -> Iterator[Judgement | Refusal]:
    files = {part: _by_stem(subset / part) for part in _PARTS}
    for stem in sorted(set().union(*files.values())):
        where = f"{split}/{subset.name}/{stem}"
        missing = [part for part in _PARTS if stem not in files[part]]
        if missing:
            yield Refusal(where, f"it is missing in {', '.join(missing)}")
            continue
        try:
            triplet = tuple(
                pictures.picture(f"{split}/{subset.name}/{part}/{files[part][stem]}") for part in _PARTS[:3]
            )
            second = _share(subset / "judge" / files["judge"][stem])
        except (PicturePathError, ValueError) as error:
            yield Refusal(where, str(error))
            continue
        votes = tuple(two_afc_votes([second])[0].tolist())
        yield Judgement(where, triplet, OVERALL, votes, f"bapps/{subset.name}", BAPPS_RATERS[split])


def _by_stem(folder: Path) -> dict[str, str]:
    wanted = {".npy"} if folder.name == "judge" else IMAGE_SUFFIXES
    paths = (Path(name) for name in os.listdir(folder) if not name.startswith("."))
    return {path.stem: path.name for path in paths if path.suffix.lower() in wanted}


def _share(path: Path) -> float:
    """Read the share of people who chose p1.

    Raises:
        ValueError: The file is no array of one number from 0 to 1.
    """
    try:
        if path.stat().st_size > _MAX_JUDGE_BYTES:
            raise ValueError(f"it has over {_MAX_JUDGE_BYTES} bytes")
        values = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"the judgement {path.name} cannot be read: {error}") from error
    if not isinstance(values, np.ndarray) or values.size != 1 or values.dtype.kind not in "fiu":
        raise ValueError(f"the judgement {path.name} is no array of one number")
    # float32 as published: 0.6 comes as 0.60000002.
    share = round(float(values.reshape(())), 6)
    if not 0 <= share <= 1:
        raise ValueError(f"the judgement {path.name} is {share}; expected the share of people who chose p1, 0 to 1")
    return share
