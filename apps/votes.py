"""Raw votes on disk: one JSON line for what one session answered about one item, written before anything else.

The layout is the one that ``tpips-train data`` reads as ``votes:FILE``; pictures lie beside the file, so that the
folder can be taken anywhere.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from apps.annotation_items import AnnotationItem, AnnotationKind
from apps.resources import Resources
from tpips_model.errors import TpipsError

__all__ = ["CANNOT_TELL", "VoteFolder", "check_standing", "session_name"]

CANNOT_TELL = "can't tell"
MAX_NAME = 60
LOCK_FILE = "lock"
# How a picture's file begins; others are stored as JPEG names, which readers do not go by.
SUFFIXES = {b"\x89PNG": ".png", b"GIF8": ".gif", b"RIFF": ".webp", b"BM": ".bmp", b"II*\0": ".tif", b"MM\0*": ".tif"}


def session_name(annotator: str, seed: int) -> str:
    """Return the name of one annotator's sitting over one set of items.

    Raises:
        TpipsError: The annotator has no name.

    Examples:
        >>> session_name("  Ana  María ", 7)
        'Ana María/7'
    """
    name = re.sub(r"\s+", " ", "".join(char for char in annotator if char.isprintable())).strip()[:MAX_NAME]
    if not name:
        raise TpipsError("votes need a name, so that one annotator's can be told from another's; type any")
    return f"{name}/{seed}"


def check_standing(records: Iterable[Mapping[str, Any]]) -> dict[str, bool | None]:
    """Return, for every session, whether it has passed the attention checks that it has met; ``None`` if it met none.

    Only votes of sessions that have passed count, as ``tpips-train data`` reads them: all right, under every aspect.

    Args:
        records: Votes of one kind, as ``VoteFolder.records`` gives them.
    """
    standing: dict[str, bool | None] = {}
    for record in records:
        session = str(record["session"])
        before = standing.setdefault(session, None)
        if record.get("sentinel") is not None:
            right = all(answer == record["sentinel"] for answer in record["answers"].values())
            standing[session] = right and before is not False
    return standing


class VoteFolder:
    """A folder of votes and their pictures.

    Args:
        folder: It; made with the first vote.
        lock: Held while a vote is written, by all who write in this process; other processes wait for the folder's.
    """

    def __init__(self, folder: Path, lock: threading.Lock) -> None:
        self.folder = folder
        self._lock = lock

    def path(self, kind: AnnotationKind) -> Path:
        """Return the file of votes of one kind."""
        return self.folder / f"votes-{kind}.jsonl"

    def answered(self, kind: AnnotationKind, session: str) -> set[str]:
        """Return the items that a session has answered."""
        return {str(record["item"]) for record in self.records(kind) if record["session"] == session}

    def records(self, kind: AnnotationKind) -> list[dict[str, Any]]:
        """Return all votes of one kind.

        Raises:
            TpipsError: The file cannot be read, or was changed by hand into something else.
        """
        path = self.path(kind)
        try:
            lines = path.read_bytes().split(b"\n") if path.exists() else []
        except OSError as error:
            raise TpipsError(f"cannot read the votes in {path}: {error.strerror or error}") from error
        # What follows the last line's end is a vote whose writing was cut short; ``append`` takes it away.
        try:
            return [json.loads(line) for line in lines[:-1] if line.strip()]
        except ValueError as error:
            raise TpipsError(f"{path} holds a line that is no vote ({error}); mend it or move it away") from error

    def append(self, resources: Resources, item: AnnotationItem, session: str, answers: Mapping[str, str]) -> None:
        """Write one vote; when this returns, it is on the disk.

        Args:
            resources: Gives the pictures.
            item: The item.
            session: Whose vote.
            answers: Aspect → "p0", "p1", "p2" or "can't tell".

        Raises:
            TpipsError: An answer is none, the session has answered the item already, or the folder cannot be written.
        """
        allowed = {name.removesuffix("_path") for name in item.members} - {"ref"} | {CANNOT_TELL}
        if not answers or not set(answers.values()) <= allowed:
            raise TpipsError(f"an answer must be one of {', '.join(sorted(allowed))}; reload the page and answer again")
        record: dict[str, Any] = {"session": session, "item": item.id}
        try:
            for field, row in zip(item.members, item.rows, strict=True):
                record[field] = self._keep_picture(resources, row)
            if item.sentinel is not None:
                record["sentinel"] = item.sentinel
            record["answers"] = dict(answers)
            with self._lock, _only_writer(self.folder):
                if item.id in self.answered(item.kind, session):
                    raise TpipsError("this one was answered already, perhaps in another window; go on with the next")
                _append_line(self.path(item.kind), json.dumps(record, ensure_ascii=False))
        except OSError as error:
            raise TpipsError(
                f"cannot write the vote to {self.folder}: {error.strerror or error}; free the folder, or start the app "
                "with --votes FOLDER"
            ) from error

    def _keep_picture(self, resources: Resources, row: int) -> str:
        """Put a picture's file beside the votes, once, and return its path in the folder."""
        data = resources.view.index.item_bytes(resources.view.record(row))
        suffix = next((suffix for start, suffix in SUFFIXES.items() if data.startswith(start)), ".jpg")
        name = f"pictures/{hashlib.sha256(data).hexdigest()[:24]}{suffix}"
        path = self.folder / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
            try:
                temporary.write_bytes(data)
                os.replace(temporary, path)
            finally:
                with contextlib.suppress(OSError):
                    temporary.unlink()
        return name


@contextlib.contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Wait until no other program writes to a folder, and keep others out; its end, however it comes, lets them in."""
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _append_line(path: Path, line: str) -> None:
    """Append a line and flush it to the disk, after taking away a last line that was cut short."""
    with open(path, "ab+") as stream:
        end = stream.seek(0, os.SEEK_END)
        if end and (stream.seek(end - 1), stream.read(1))[1] != b"\n":
            stream.seek(0)
            stream.truncate(stream.read().rfind(b"\n") + 1)
        stream.write(line.encode("utf-8", "replace") + b"\n")
        stream.flush()
        os.fsync(stream.fileno())
