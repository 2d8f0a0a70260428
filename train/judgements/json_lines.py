"""Reading JSON from files that anybody may have written: line by line, within bounds."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from train.judgements.records import JudgementDataError, Refusal

__all__ = ["MAX_JSON_BYTES", "json_object", "numbered_objects"]

# One triplet with a hundred aspects has 10 kB.
MAX_JSON_BYTES = 1 << 20


def numbered_objects(path: Path) -> Iterator[tuple[str, dict[str, Any] | Refusal]]:
    """Give every line of a file of JSON lines as ``"file:line"`` and its object, or what is wrong with it.

    Blank lines are passed over.

    Raises:
        JudgementDataError: The file cannot be read, or is no regular file.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise JudgementDataError(f"{path} is no regular file; give a file of JSON lines, one triplet a line")
            number = 0
            while line := stream.readline(MAX_JSON_BYTES + 1):
                number += 1
                where = f"{path.name}:{number}"
                if len(line) > MAX_JSON_BYTES and not line.endswith(b"\n"):
                    _skip_line(stream)
                    yield where, Refusal(where, f"the line has over {MAX_JSON_BYTES:,} bytes")
                elif line.strip():
                    yield where, _parsed(line.removeprefix(b"\xef\xbb\xbf"), where)
    except OSError as error:
        raise JudgementDataError(
            f"cannot read {path}: {error.strerror or error}; give a file of JSON lines, one triplet a line"
        ) from error


def json_object(data: bytes) -> dict[str, Any]:
    """Parse one JSON object.

    Raises:
        ValueError: It is no JSON object; the message is the reason alone.
    """
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 (byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error.msg} at character {error.pos})") from error
    except RecursionError as error:
        raise ValueError("it is not JSON of this layout (nested too deeply)") from error
    if not isinstance(value, dict):
        raise ValueError(f"it must be a JSON object, but is of type {type(value).__name__}")
    return value


def _parsed(line: bytes, where: str) -> dict[str, Any] | Refusal:
    try:
        return json_object(line)
    except ValueError as error:
        return Refusal(where, f"malformed line: {error}")


def _without_waiting(path: str, flags: int) -> int:
    return os.open(
        path, flags | getattr(os, "O_NONBLOCK", 0)
    )  # a pipe would be waited for before it could be looked at


def _skip_line(stream: Any) -> None:
    while chunk := stream.readline(MAX_JSON_BYTES):
        if chunk.endswith(b"\n"):
            return


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object; of two values under one name nobody knows which was meant."""
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise ValueError(f"an object has {name!r:.80} twice")
        made[name] = value
    return made


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it is not JSON ({name} is no number)")
