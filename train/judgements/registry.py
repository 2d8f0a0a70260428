"""From what a user names to judgements: every kind of source behind one function."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from train.judgements.bapps import read_bapps
from train.judgements.nights import read_nights
from train.judgements.picture_sources import FilePicture, TarPicture
from train.judgements.procedural import ProceduralConfig, procedural_judgements
from train.judgements.raw_votes import read_raw_votes
from train.judgements.records import Judgement, JudgementDataError, JudgementSet, PictureSource, Refusal
from train.judgements.shards import read_shards
from train.judgements.triplet_lines import read_triplet_lines

__all__ = ["SOURCES", "load_judgements"]

_SHOWN_REFUSALS = 5


def load_judgements(spec: str, *, images_root: Path | None = None, allow_refusals: bool = False) -> JudgementSet:
    """Read the judgements that a spec names; pictures are found, but not opened.

    Args:
        spec: ``FILE.jsonl`` (see ``triplet_lines``), ``shards/*.tar`` (see ``shards``), a folder that holds one
            ``.jsonl`` or any ``.tar`` files, ``procedural:families=64,seed=3`` (fields of ``ProceduralConfig``),
            ``votes:FILE.jsonl`` (see ``raw_votes``), ``bapps:DIR`` and ``nights:DIR`` (their evaluation parts; another
            one ``nights:DIR@train``); several joined by ``+``, whose items, subsets and keys are then prefixed by the
            set's name.
        images_root: What paths in JSON lines are relative to; by default the file's folder.
        allow_refusals: Return what can be used instead of raising; the refusals are in the set.

    Raises:
        JudgementDataError: The spec names nothing, its source cannot be read, holds no judgement, or (unless allowed)
            holds something that cannot be used.
    """
    if "\0" in spec:
        raise JudgementDataError(
            f"the judgements {spec!r:.200} hold a null character, which no path can; give another path"
        )
    kind, _, argument = spec.partition(":")
    one = os.path.exists(argument if kind in SOURCES else spec)  # whose path may hold a plus
    parts = [spec] if one else spec.split("+")
    sets = [_load_one(part.strip(), images_root) for part in parts]
    found = sets[0] if len(sets) == 1 else _joined(sets)
    if found.refusals and not allow_refusals:
        raise JudgementDataError(_refused(spec, found.refusals))
    if not found.judgements and not found.refusals:
        left_out = ", ".join(f"{count:,} × {rule}" for rule, count in found.dropped.items())
        raise JudgementDataError(
            f"{spec!r} holds no judgement{f' (left out: {left_out})' if left_out else ''}; give a source with at least "
            "one"
        )
    return found


def _load_one(spec: str, images_root: Path | None) -> JudgementSet:
    kind, _, argument = spec.partition(":")
    if kind in SOURCES and argument:
        return SOURCES[kind](argument, images_root)
    if spec.endswith((".jsonl", ".ndjson")):
        return SOURCES["jsonl"](spec, images_root)
    if os.path.isdir(spec):
        names = sorted(os.listdir(spec))
        lines = [name for name in names if name.endswith(".jsonl")]
        if len(lines) == 1 and not any(name.endswith(".tar") for name in names):
            return SOURCES["jsonl"](os.path.join(spec, lines[0]), images_root)
        return SOURCES["shards"](spec, images_root)
    if spec.endswith(".tar"):
        return SOURCES["shards"](spec, images_root)
    raise JudgementDataError(
        f"the judgements {spec!r:.200} are of no known kind; give FILE.jsonl, a folder of .tar shards, or one of "
        f"{', '.join(f'{name}:…' for name in SOURCES)}"
    )


def _of_split(reader: Callable[..., JudgementSet], *, otherwise: str) -> Callable[[str, Path | None], JudgementSet]:
    """Return a reader of ``DIR`` or ``DIR@SPLIT``."""

    def read(argument: str, images_root: Path | None) -> JudgementSet:
        folder, _, split = (argument, "", "") if os.path.exists(argument) else argument.rpartition("@")
        return reader(Path(folder or argument), split=split or otherwise)

    return read


def _procedural(options: str, images_root: Path | None) -> JudgementSet:
    """Read ``families=64,seed=3,evaluation=yes``."""
    known = {field.name: field for field in dataclasses.fields(ProceduralConfig)}
    given: dict[str, Any] = {}
    for option in options.split(","):
        name, _, value = option.strip().partition("=")
        if name not in known or name in given:
            raise JudgementDataError(
                f"procedural option {option!r:.80} cannot be used; give each of {', '.join(known)} at most once, as in "
                "procedural:families=64,seed=3,evaluation=1"
            )
        if isinstance(known[name].default, bool):
            value = {"yes": "1", "no": "0", "true": "1", "false": "0"}.get(value, value)
        if not value.isascii() or not value.isdigit() or len(value) > 9:
            expected = "yes or no" if isinstance(known[name].default, bool) else "a whole number"
            raise JudgementDataError(f"procedural option {name} must be {expected}, but is {value!r:.80}")
        given[name] = int(value)
    flags = {name: bool(value) for name, value in given.items() if isinstance(known[name].default, bool)}
    return procedural_judgements(ProceduralConfig(**{**given, **flags}))


def _joined(sets: Sequence[JudgementSet]) -> JudgementSet:
    repeats = Counter(one.name for one in sets)
    judgements: list[Judgement] = []
    refusals: list[Refusal] = []
    dropped: Counter[str] = Counter()
    for number, one in enumerate(sets):
        name = one.name if repeats[one.name] == 1 else f"{one.name}-{number + 1}"
        renamed: dict[PictureSource, PictureSource] = {}
        for judgement in one.judgements:
            pictures = tuple(renamed.setdefault(picture, _renamed(picture, name)) for picture in judgement.pictures)
            item, subset = _prefixed(name, judgement.item), _prefixed(name, judgement.subset)
            judgements.append(dataclasses.replace(judgement, item=item, pictures=pictures, subset=subset))
        refusals += [Refusal(f"{name}: {refusal.where}", refusal.reason) for refusal in one.refusals]
        dropped.update(one.dropped)
    return JudgementSet(tuple(judgements), tuple(refusals), dropped, "+".join(one.name for one in sets))


def _renamed(picture: PictureSource, name: str) -> PictureSource:
    """Return a picture under a key that no other set's picture has; a procedural one's key is its own anywhere."""
    if isinstance(picture, (FilePicture, TarPicture)):
        return dataclasses.replace(picture, key=f"{name}/{picture.key}")
    return picture


def _prefixed(name: str, text: str) -> str:
    """Put the set's name before an item or a subset, unless it is there ("bapps/cnn")."""
    return text if text == name or text.startswith(f"{name}/") else f"{name}/{text}" if text else name


def _refused(spec: str, refusals: Sequence[Refusal]) -> str:
    shown = "; ".join(f"{refusal.where}: {refusal.reason}" for refusal in refusals[:_SHOWN_REFUSALS])
    more = f"; and {len(refusals) - _SHOWN_REFUSALS:,} more" if len(refusals) > _SHOWN_REFUSALS else ""
    return (
        f"{len(refusals):,} parts of {spec!r} cannot be used: {shown}{more}. Mend them, or list them all with: "
        f"tpips-train data check --refused refused.jsonl"
    )


# kind of source -> its reader, which takes what follows the colon and the pictures' root
SOURCES: Mapping[str, Callable[[str, Path | None], JudgementSet]] = {
    "jsonl": lambda argument, root: read_triplet_lines(Path(argument), images_root=root),
    "shards": lambda argument, root: read_shards(argument),
    "procedural": _procedural,
    "votes": lambda argument, root: read_raw_votes(Path(argument), images_root=root),
    "bapps": _of_split(read_bapps, otherwise="val"),
    "nights": _of_split(read_nights, otherwise="test"),
}
