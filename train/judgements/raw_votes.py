"""Raw votes as an annotation interface collects them, made into judgements by the paper's rules.

JSON lines, each what one session answered about one item, under all aspects it was shown::

    {"session": "s1", "item": "t7", "p0_path": "a/0.png", "p1_path": "a/1.png", "p2_path": "a/2.png",
     "answers": {"lighting": "p2", "mood": "can't tell", "overall": "p0"}}

Optional: "subset", and "sentinel", the right answer of an item that only tests the session. An item in which one
picture stands twice is a sentinel by itself. A 2AFC item has "ref_path", "p0_path" and "p1_path"; whether its
candidates are edits of its reference, "edited" tells, or else its subset ("editing"): such an item is dropped if the
same candidate has the majority under all of its aspects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpips_model.aspects import Aspect
from train.judgements.item_record import NO_ASPECT, RecordError, known_aspect, slug_of, words
from train.judgements.json_lines import numbered_objects
from train.judgements.picture_folder import PictureFolder, PicturePathError
from train.judgements.records import Judgement, JudgementSet, PictureSource, Refusal
from train.judgements.triplet_lines import line_pictures
from train.judgements.two_afc_sources import two_afc_source
from train.judgements.vote_rules import CANNOT_TELL, ONE_SIDED, Vote, counted_votes, one_sided, vote_shares

__all__ = ["CANNOT_TELL_ANSWERS", "SENTINEL_ITEM", "read_raw_votes"]

CANNOT_TELL_ANSWERS = frozenset(("can't tell", "can’t tell", "cant_tell", None))
SENTINEL_ITEM = "sentinel item"


@dataclass(frozen=True)
class _Item:
    """One item: its pictures, how many members may be chosen, the right answer if it is a sentinel, whether edited."""

    pictures: tuple[PictureSource, ...]
    members: int
    subset: str
    sentinel: int | None
    edited: bool


def read_raw_votes(path: Path, *, images_root: Path | None = None) -> JudgementSet:
    """Read a file of raw votes and apply the rules of section 3.1 and Appendix A.

    Args:
        path: The file.
        images_root: What paths are relative to; by default the file's folder. None is followed out of it.

    Returns:
        Judgements with the number of valid votes as ``raters``; refusals; and how often each rule dropped something.

    Raises:
        JudgementDataError: The file or the pictures' folder cannot be read.
    """
    folder = PictureFolder(images_root if images_root is not None else path.parent)
    ballot_box = _BallotBox(folder)
    refusals: list[Refusal] = []
    for where, record in numbered_objects(path):
        if isinstance(record, Refusal):
            refusals.append(record)
            continue
        try:
            ballot_box.add(record, where)
        except (RecordError, PicturePathError) as error:
            refusals.append(Refusal(where, str(error)))
    judgements, dropped = ballot_box.counted()
    return JudgementSet(tuple(judgements), tuple(refusals), +dropped, path.stem)


class _BallotBox:
    """All votes of a file, and what they are about."""

    def __init__(self, folder: PictureFolder) -> None:
        self._folder = folder
        self._items: dict[str, _Item] = {}
        self._aspects: dict[str, dict[str, Aspect]] = {}
        self._votes: list[Vote] = []
        self._given: dict[tuple[str, str], str] = {}

    def add(self, record: Mapping[str, Any], where: str) -> None:
        """Take one line's answers, all or none.

        Raises:
            RecordError: The line cannot be used, or contradicts an earlier one.
            PicturePathError: A picture is not there.
        """
        session, name = (_required(record, field) for field in ("session", "item"))
        item = self._read_item(record)
        if self._items.get(name, item) != item:
            raise RecordError(
                f"item {name!r:.80} has other pictures, subset, sentinel or edits than on an earlier line"
            )
        if (session, name) in self._given:
            raise RecordError(
                f"session {session!r:.80} has answered item {name!r:.80} on {self._given[session, name]} already; put "
                "all of its answers on one line"
            )
        answers = _answers(record, item.members)
        self._items[name] = item
        self._given[session, name] = where
        for aspect, choice in answers.items():
            self._aspects.setdefault(name, {}).setdefault(slug_of(aspect), aspect)
            self._votes.append(Vote(session, name, slug_of(aspect), choice))

    def counted(self) -> tuple[list[Judgement], Counter[str]]:
        """Return the judgements that the rules leave, item by item, and what the rules dropped."""
        sentinels = {name: item.sentinel for name, item in self._items.items() if item.sentinel is not None}
        choices, dropped = counted_votes(self._votes, sentinels)
        dropped[SENTINEL_ITEM] += len(sentinels)
        judgements: list[Judgement] = []
        for name, item in self._items.items():
            if name in sentinels:
                continue
            held: list[Judgement] = []
            for slug, aspect in self._aspects.get(name, {}).items():
                given = choices.get((name, slug), [])
                valid = sum(choice is not None for choice in given)
                dropped[CANNOT_TELL] += len(given) - valid
                shares = vote_shares(given, item.members)
                if isinstance(shares, str):
                    dropped[shares] += 1
                    continue
                held.append(Judgement(name, item.pictures, aspect, shares, item.subset, valid))
            if item.edited and one_sided([judgement.votes for judgement in held]):
                dropped[ONE_SIDED] += 1
                continue
            dropped[NO_ASPECT] += not held
            judgements += held
        return judgements, dropped

    def _read_item(self, record: Mapping[str, Any]) -> _Item:
        pictures, members = line_pictures(record, self._folder)
        subset = words(record, "subset", otherwise="")
        return _Item(pictures, members, subset, _sentinel(record, pictures, members), _edited(record, subset, members))


def _sentinel(record: Mapping[str, Any], pictures: Sequence[PictureSource], members: int) -> int | None:
    """The right answer of an item that is a sentinel: stated, or plain because one picture stands twice."""
    stated = _member(record["sentinel"], members, "sentinel") if record.get("sentinel") is not None else None
    distinct = len(set(pictures))
    if distinct == 3:
        return stated
    first, second, third = pictures
    if distinct == 1 or (members == 2 and second == third):
        raise RecordError("the pictures to choose from are the same, so that no answer is right")
    # Odd-one-out: the one that is not twin to another. 2AFC: the candidate that is the reference itself.
    plain = (1 if first == third else 0) if members == 2 else (0 if second == third else 1 if first == third else 2)
    if stated not in (None, plain):
        raise RecordError(f"the sentinel is p{stated}, but by its pictures p{plain} is right")
    return plain


def _edited(record: Mapping[str, Any], subset: str, members: int) -> bool:
    """Whether the candidates of a 2AFC item are edits of its reference: stated, or plain by its subset."""
    stated = record.get("edited")
    if stated is not None and not isinstance(stated, bool):
        raise RecordError(f'"edited" must be true or false, but is {stated!r:.40}')
    if stated and members != 2:
        raise RecordError('"edited" is true of an odd-one-out item; it is for 2AFC items, whose reference was edited')
    return members == 2 and (two_afc_source(subset) == "Editing" if stated is None else stated)


def _answers(record: Mapping[str, Any], members: int) -> dict[Aspect, int | None]:
    given = record.get("answers")
    if not isinstance(given, dict) or not given:
        raise RecordError(f'"answers" must be {{aspect: answer}} with at least one aspect, but is {given!r:.80}')
    answers: dict[Aspect, int | None] = {}
    slugs = set()
    for name, answer in given.items():
        aspect = known_aspect(name)
        if slug_of(aspect) in slugs:
            raise RecordError(f"aspect {aspect.text!r:.80} is answered twice")
        slugs.add(slug_of(aspect))
        told = answer is not None and not (isinstance(answer, str) and answer in CANNOT_TELL_ANSWERS)
        answers[aspect] = _member(answer, members, f"answer for {aspect.text!r:.80}") if told else None
    return answers


def _member(answer: object, members: int, what: str) -> int:
    labels = [f"p{number}" for number in range(members)]
    if answer not in labels:
        raise RecordError(f'the {what} is {answer!r:.40}; expected {", ".join(labels)} or "can\'t tell"')
    return labels.index(str(answer))


def _required(record: Mapping[str, Any], name: str) -> str:
    value = words(record, name, otherwise="")
    if not value:
        raise RecordError(f'the line has no "{name}"; expected session, item, three paths and answers')
    return value
