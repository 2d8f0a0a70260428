"""Human judgements in memory: which pictures, under which aspect, and how people voted (sections 3.1 and 3.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from PIL import Image

from tpips_model.aspects import Aspect
from tpips_model.errors import TpipsError
from tpips_model.terminal import printable

__all__ = ["PAIRS", "Judgement", "JudgementDataError", "JudgementSet", "Kind", "PictureSource", "Refusal"]

Kind = Literal["odd-one-out", "2afc"]

_KINDS: Mapping[int, Kind] = {3: "odd-one-out", 2: "2afc"}
# The pairs of an item's pictures whose similarities are the scores of its choices. Odd-one-out: s̄_k, that of the two
# members other than k (section 4.1). 2AFC: the reference with either candidate.
PAIRS: Mapping[Kind, tuple[tuple[int, int], ...]] = {
    "odd-one-out": ((1, 2), (0, 2), (0, 1)),
    "2afc": ((0, 1), (0, 2)),
}
# What shares may lack or exceed of one: rounding of float32 votes.
_ROUNDING = 1e-4


class JudgementDataError(TpipsError):
    """Judgements that cannot be read, used or written."""


@runtime_checkable
class PictureSource(Protocol):
    """One picture, read only when it is asked for; hashable, and equal to another exactly if it is the same picture.

    Attributes:
        key: Unique within a data set, in the form of a relative path (``"val/cnn/ref/000012.png"``); reports and
            errors call the picture by it.
    """

    @property
    def key(self) -> str: ...

    def load(self) -> Image.Image:
        """Return the picture, RGB and upright, as a new image that the caller may change.

        Raises:
            ImageError: It cannot be read or decoded; the message names the key.
        """
        ...


@dataclass(frozen=True, slots=True)
class Judgement:
    """One example: one item under one aspect.

    Attributes:
        item: The triplet's or 2AFC item's id.
        pictures: Odd-one-out: the three members. 2AFC: reference, first and second candidate.
        aspect: The sense of similarity that was asked for.
        votes: Shares that sum to one. Odd-one-out: three, entry k the share who called member k the odd one.
            2AFC: two, entry k the share who called candidate k closer to the reference.
        subset: Such as ``"editing"`` or ``"bapps/cnn"``; empty if there is none.
        raters: How many valid votes the shares rest on, or None if unknown.

    Raises:
        ValueError: The votes are no distribution, or the pictures are not three.
    """

    item: str
    pictures: tuple[PictureSource, ...]
    aspect: Aspect
    votes: tuple[float, ...]
    subset: str = ""
    raters: int | None = None

    def __post_init__(self) -> None:
        if len(self.pictures) != 3 or len(self.votes) not in _KINDS:
            raise ValueError(
                f"{self.item}: {len(self.pictures)} pictures and {len(self.votes)} shares fit no judgement"
            )
        if not (min(self.votes) >= 0 and math.isclose(sum(self.votes), 1.0, abs_tol=_ROUNDING)):
            raise ValueError(f"{self.item}: the votes {self.votes} are no shares that sum to one")

    @property
    def kind(self) -> Kind:
        """What people were asked: which of three is the odd one, or which of two is closer to a reference."""
        return _KINDS[len(self.votes)]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something in a data set that cannot be used.

    Attributes:
        where: File and line (``"triplets.jsonl:12"``), or shard and member.
        reason: What is wrong with it. Both are safe to print: a member is called whatever somebody called it.
    """

    where: str
    reason: str

    def __post_init__(self) -> None:
        for name in ("where", "reason"):
            object.__setattr__(self, name, printable(getattr(self, name)))


@dataclass(frozen=True)
class JudgementSet:
    """Judgements, and what was left out on the way to them.

    Attributes:
        judgements: In the source's order; those of one item stand together.
        refusals: What is wrong with the source.
        dropped: Rule of section 3.1 or Appendix A → how often it left something out. That is no fault of the source.
        name: What reports call the set.
    """

    judgements: tuple[Judgement, ...]
    refusals: tuple[Refusal, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    name: str = "judgements"
