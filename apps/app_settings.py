"""What the app was started with, handed to the script that Streamlit runs for every session."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tpips_model.errors import TpipsError

__all__ = ["AppSettings"]

INDEX, DATA_ROOT, VOTES, WEB = "TPIPS_APP_INDEX", "TPIPS_APP_DATA_ROOT", "TPIPS_APP_VOTES", "TPIPS_APP_WEB"


@dataclass(frozen=True)
class AppSettings:
    """Where the app finds and puts things.

    Attributes:
        index: The index directory.
        data_root: Where the pictures of each of the index's sources are now, by the source's prefix; none of those
            that are where they were indexed.
        votes: The folder that the Annotate page writes to.
        web: Whether users may paste the address of a picture, which this machine then downloads.
    """

    index: Path
    data_root: tuple[tuple[str, Path], ...]
    votes: Path
    web: bool = False

    @classmethod
    def of(
        cls, index: Path, data_root: Mapping[str, Path] | None = None, votes: Path | None = None, *, web: bool = False
    ) -> AppSettings:
        """Return settings with absolute paths; votes go to ``INDEX-votes`` beside the index unless told otherwise."""
        whole = index.absolute()
        return cls(
            whole,
            tuple((prefix, folder.absolute()) for prefix, folder in (data_root or {}).items()),
            votes.absolute() if votes is not None else whole.with_name(f"{whole.name}-votes"),
            web,
        )

    def to_environment(self) -> dict[str, str]:
        """Return the settings as environment variables."""
        return {
            INDEX: str(self.index),
            DATA_ROOT: json.dumps({prefix: str(folder) for prefix, folder in self.data_root}),
            VOTES: str(self.votes),
            WEB: "1" if self.web else "",
        }

    @classmethod
    def from_environment(cls) -> AppSettings:
        """Read what ``to_environment`` wrote.

        Raises:
            TpipsError: The app was started in another way than by its command.
        """
        if not os.environ.get(INDEX):
            raise TpipsError("the app was not told which index to open; start it with: tpips-app INDEX")
        roots, votes = json.loads(os.environ.get(DATA_ROOT) or "{}"), os.environ.get(VOTES)
        return cls.of(
            Path(os.environ[INDEX]),
            {prefix: Path(folder) for prefix, folder in roots.items()},
            Path(votes) if votes else None,
            web=bool(os.environ.get(WEB)),
        )
