"""What one session of the Compose page remembers: its history, what its link says, and the results before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from apps.query_state import History, PictureRef, QueryRow, QueryState, state_from_params
from tpips_model.errors import TpipsError

__all__ = ["ComposeSession"]


@dataclass
class ComposeSession:
    """One session.

    Attributes:
        history: Its queries.
        generation: Counts the times that widgets must be drawn anew because the query changed without them.
        uploads: Counts the pictures that came, so that every one finds an empty drop area.
        written: The parameters that the address bar holds, as far as the server knows; ``None`` before the first run.
        acted: Whether the user has just done something on the page, rather than gone back or opened a link.
        notices: What went wrong, to be shown once.
        asked: The query whose results were shown last, and their keys.
        before: The keys that were shown before the last change of the query.
    """

    history: History = field(default_factory=History)
    generation: int = 0
    uploads: int = 0
    written: dict[str, list[str]] | None = None
    acted: bool = False
    notices: list[str] = field(default_factory=list)
    asked: tuple[QueryState, tuple[str, ...]] | None = None
    before: tuple[str, ...] = ()

    @property
    def now(self) -> QueryState:
        """The query that is shown."""
        return self.history.now

    def change(self, state: QueryState, *, redraw: bool = True) -> None:
        """Ask another query.

        Args:
            state: It.
            redraw: Whether widgets show something else now than the user has left them at.
        """
        self.acted = True
        # The penalty of a single row is another one, unless it was chosen.
        single = [len(one.active) == 1 for one in (self.now, state) if one.penalty is None]
        self.generation += redraw or len(set(single)) > 1
        self.history = self.history.push(state)

    def attempt(self, make: Callable[[], QueryState]) -> None:
        """Ask the query that ``make`` returns, or keep what is wrong with it as a notice."""
        self.acted = True
        try:
            self.change(make())
        except TpipsError as error:
            self.notices.append(str(error))

    def undo(self) -> None:
        """Go back one query."""
        self._walk(self.history.undo())

    def redo(self) -> None:
        """Go on one query."""
        self._walk(self.history.redo())

    def _walk(self, history: History) -> None:
        self.acted = True
        self.generation += 1
        self.history = history

    def read_link(self, params: Mapping[str, Sequence[str]], *, entering: bool) -> None:
        """Follow the address bar: a link that was opened, or the browser's back button.

        Args:
            params: The address bar's parameters.
            entering: Whether another page was shown before.
        """
        given = {name: list(values) for name, values in params.items()}
        acted, self.acted = self.acted, False
        # A click that overtook the last change of the address brings the address before it: the click counts.
        if acted or given == self.written or (entering and not given):
            return
        state, problems = state_from_params(given)
        self.notices += problems
        if state != self.now:
            self.generation += 1
            self.history = self.history.push(state)

    def answered(self, state: QueryState, keys: Sequence[str]) -> None:
        """Take note of the results of a query, to tell after the next change what came and what stayed."""
        if self.asked is not None and not self.asked[0].same_question(state):
            self.before = self.asked[1]
            self.asked = None
        if self.asked is None or state.page == 1:
            self.asked = (state, tuple(keys))

    def new_row(self, picture: PictureRef, aspects: Sequence[str]) -> QueryRow:
        """Return a row for a picture under the first aspect that no row has yet."""
        used = {row.aspect for row in self.now.rows}
        return QueryRow(picture, next((aspect for aspect in aspects if aspect not in used), aspects[0]))
