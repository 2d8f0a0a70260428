"""What is asked on the Compose page, and how it is written into a link."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from apps.filter_choices import FilterChoice, choices_from_params, choices_to_params
from tpips_model.errors import TpipsError

__all__ = ["LOOKS", "MAX_ROWS", "PAGE_SIZES", "History", "PictureRef", "QueryRow", "QueryState", "state_from_params"]

MAX_ROWS = 8
PAGE_SIZES = (24, 48, 96)
# How many pictures may be looked at for words that are not indexed.
LOOKS = (64, 256, 1024)
MAX_NAME = 4096
MAX_WEIGHT = 100.0
MAX_HISTORY = 100


@dataclass(frozen=True)
class PictureRef:
    """A picture of a query: an indexed one by its key, or an uploaded one by the hash of its bytes."""

    kind: Literal["key", "upload"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> PictureRef:
        """Read what ``str`` gives.

        Raises:
            TpipsError: It is neither ``key:…`` nor ``upload:…``.
        """
        kind, colon, name = text.partition(":")
        if not colon or not name or len(name) > MAX_NAME or kind not in ("key", "upload"):
            raise TpipsError(f"the link names the picture {text[:80]!r}; expected key:NAME or upload:HASH")
        return cls("key" if kind == "key" else "upload", name)


@dataclass(frozen=True)
class QueryRow:
    """One row: like (or, with a weight below zero, unlike) a picture in one sense.

    Attributes:
        picture: The picture.
        aspect: The aspect's words.
        weight: How much it counts.
        on: Whether it counts at all at the moment.
    """

    picture: PictureRef
    aspect: str
    weight: float = 1.0
    on: bool = True


@dataclass(frozen=True)
class QueryState:
    """All that the Compose page asks.

    Attributes:
        rows: The rows, at most ``MAX_ROWS``.
        penalty: λ, or ``None`` for what ``effective_penalty`` gives.
        choices: What the filter widgets ask.
        where: A filter in the filter language besides, or nothing.
        collapse: Whether near-duplicates are shown once.
        page: Which page, from 1.
        page_size: Results on a page.
        look: How many pictures are looked at for words that are not indexed.
    """

    rows: tuple[QueryRow, ...] = ()
    penalty: float | None = None
    choices: tuple[FilterChoice, ...] = ()
    where: str = ""
    collapse: bool = False
    page: int = 1
    page_size: int = PAGE_SIZES[0]
    look: int = LOOKS[0]

    @property
    def active(self) -> tuple[QueryRow, ...]:
        """The rows that count."""
        return tuple(row for row in self.rows if row.on and row.weight != 0.0)

    def effective_penalty(self, recommended: float) -> float:
        """Return λ: what was chosen; else the model's recommendation for one row (section 5) and 0 for several."""
        if self.penalty is not None:
            return self.penalty
        return recommended if len(self.active) == 1 else 0.0

    def adding(self, row: QueryRow) -> QueryState:
        """Return the query with one more row, on the first page.

        Raises:
            TpipsError: There are ``MAX_ROWS`` rows already.
        """
        if len(self.rows) >= MAX_ROWS:
            raise TpipsError(f"a query has at most {MAX_ROWS} rows; remove one first")
        return replace(self, rows=(*self.rows, row), page=1)

    def with_row(self, place: int, row: QueryRow) -> QueryState:
        """Return the query with another row in place of one, on the first page."""
        return replace(self, rows=(*self.rows[:place], row, *self.rows[place + 1 :]), page=1)

    def without_row(self, place: int) -> QueryState:
        """Return the query without one row, on the first page."""
        return replace(self, rows=self.rows[:place] + self.rows[place + 1 :], page=1)

    def same_question(self, other: QueryState) -> bool:
        """Tell whether only the page differs."""
        return replace(self, page=1, page_size=PAGE_SIZES[0]) == replace(other, page=1, page_size=PAGE_SIZES[0])

    def to_params(self) -> dict[str, list[str]]:
        """Return the query as parameters of a link; ``state_from_params`` reads them."""
        params: dict[str, list[str]] = {}
        if self.rows:
            params["image"] = [str(row.picture) for row in self.rows]
            params["aspect"] = [row.aspect for row in self.rows]
            params["weight"] = [f"{row.weight:.6g}" for row in self.rows]
        if not all(row.on for row in self.rows):
            params["on"] = ["1" if row.on else "0" for row in self.rows]
        if self.penalty is not None:
            params["penalty"] = [f"{self.penalty:.6g}"]
        params |= choices_to_params(self.choices)
        if self.where:
            params["where"] = [self.where]
        if self.collapse:
            params["collapse"] = ["1"]
        if self.page != 1:
            params["page"] = [str(self.page)]
        if self.page_size != PAGE_SIZES[0]:
            params["size"] = [str(self.page_size)]
        if self.look != LOOKS[0]:
            params["look"] = [str(self.look)]
        return params


def state_from_params(params: Mapping[str, Sequence[str]]) -> tuple[QueryState, list[str]]:
    """Read a link's parameters, trusting nothing in them.

    Returns:
        The query that can be made of them, and what could not be used, in words.
    """
    problems: list[str] = []
    rows = _rows(params, problems)
    penalty = _number(params, "penalty", problems)
    page = _number(params, "page", problems)
    size = _number(params, "size", problems)
    look = _number(params, "look", problems)
    choices, bad = choices_from_params(params)
    return QueryState(
        rows=rows,
        penalty=None if penalty is None else min(max(penalty, 0.0), 1.0),
        choices=choices,
        where=_last(params, "where")[:MAX_NAME],
        collapse=_last(params, "collapse") == "1",
        page=1 if page is None else min(max(int(page), 1), 1_000_000),
        page_size=int(size) if size in PAGE_SIZES else PAGE_SIZES[0],
        look=int(look) if look in LOOKS else LOOKS[0],
    ), problems + bad


def _rows(params: Mapping[str, Sequence[str]], problems: list[str]) -> tuple[QueryRow, ...]:
    images, aspects = list(params.get("image", ())), list(params.get("aspect", ()))
    weights, on = list(params.get("weight", ())), list(params.get("on", ()))
    if len(images) > MAX_ROWS:
        problems.append(f"the link holds {len(images)} rows; the first {MAX_ROWS} are shown")
    rows = []
    for place, image in enumerate(images[:MAX_ROWS]):
        try:
            if place >= len(aspects) or not aspects[place].strip():
                raise TpipsError(f"the link gives no aspect for the picture {image[:80]!r}")
            weight = _finite(weights[place]) if place < len(weights) else 1.0
            if weight is None:
                raise TpipsError(f"the link gives the weight {weights[place][:40]!r}, which is no number")
            bounded = min(max(weight, -MAX_WEIGHT), MAX_WEIGHT)
            counts = on[place] != "0" if place < len(on) else True
            rows.append(QueryRow(PictureRef.parse(image), aspects[place][:MAX_NAME], bounded, counts))
        except TpipsError as error:
            problems.append(str(error))
    return tuple(rows)


def _last(params: Mapping[str, Sequence[str]], name: str) -> str:
    values = params.get(name, ())
    return values[-1] if values else ""


def _number(params: Mapping[str, Sequence[str]], name: str, problems: list[str]) -> float | None:
    text = _last(params, name)
    if not text:
        return None
    number = _finite(text)
    if number is None:
        problems.append(f"the link gives {name}={text[:40]!r}, which is no number")
    return number


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


@dataclass(frozen=True)
class History:
    """The queries of one session, oldest first, and the one that is shown.

    Attributes:
        states: At least one.
        at: The place of the one that is shown.
    """

    states: tuple[QueryState, ...] = (QueryState(),)
    at: int = 0

    @property
    def now(self) -> QueryState:
        """The query that is shown."""
        return self.states[self.at]

    def push(self, state: QueryState) -> History:
        """Return the history with one more query, which drops those that were undone."""
        if state == self.now:
            return self
        states = (*self.states[: self.at + 1], state)[-MAX_HISTORY:]
        return History(states, len(states) - 1)

    def undo(self) -> History:
        """Return the history one query back, if there is one."""
        return replace(self, at=max(self.at - 1, 0))

    def redo(self) -> History:
        """Return the history one query on, if there is one."""
        return replace(self, at=min(self.at + 1, len(self.states) - 1))
