"""Scores of one model, kept on disk as they are computed, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpips_model.errors import TpipsError

__all__ = ["ScoreCache", "ScoreCacheError"]

FORMAT = 1


class ScoreCacheError(TpipsError):
    """A cache that cannot be read, or that holds another model's scores."""


class ScoreCache:
    """One file of a model's scores: a line for the model, then one for each item.

    Lines are appended and flushed to the disk; a line cut off by a kill is passed over when the file is read, and its
    item scored again. Several runs may append to one file.

    Args:
        directory: The cache's folder, made if it is not there.
        name: The model's name, for the file's name and the record.
        fingerprint: The model's; another fingerprint is another file.

    Raises:
        ScoreCacheError: The file is none of ours.
    """

    def __init__(self, directory: Path, *, name: str, fingerprint: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        words = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[-40:]
        self.path = directory / f"{words}-{hashlib.sha256(fingerprint.encode()).hexdigest()[:16]}.jsonl"
        self._scores: dict[str, NDArray[np.float64]] = {}
        head = {"format": FORMAT, "model": name, "fingerprint": fingerprint}
        existing = self.path.read_bytes() if self.path.exists() else b""
        begun = b"\n" in existing  # else a kill cut off the very first line
        if begun:
            self._read(existing, head)
            if not existing.endswith(b"\n"):
                self._append(b"\n")  # ends the line that a kill cut off
        else:
            self.path.write_bytes(b"")
            self._append(_lines([head]))

    def __len__(self) -> int:
        return len(self._scores)

    def get(self, identity: str) -> NDArray[np.float64] | None:
        """Return an item's scores (A, C), None if they are not there."""
        return self._scores.get(identity)

    def add(self, scores: Mapping[str, NDArray[np.float64]]) -> None:
        """Keep the scores of items, by their identity; they are on the disk when this returns."""
        self._append(_lines([{"item": identity, "scores": rows.tolist()} for identity, rows in scores.items()]))
        self._scores.update(scores)

    def _append(self, payload: bytes) -> None:
        with open(self.path, "ab") as stream:
            stream.write(payload)
            stream.flush()
            os.fsync(stream.fileno())

    def _read(self, content: bytes, head: Mapping[str, Any]) -> None:
        lines = content.split(b"\n")
        found = _parsed(lines[0])
        if found is None or found.get("format") != FORMAT or found.get("fingerprint") != head["fingerprint"]:
            raise ScoreCacheError(
                f"{self.path} does not begin as a cache of this model's scores; delete it, or give another --cache"
            )
        for line in lines[1:]:
            record = _parsed(line)
            if record is not None and "item" in record:
                self._scores[record["item"]] = np.array(record["scores"], dtype=np.float64)


def _lines(records: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return a line's record, None for one that was cut off."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
