"""What a run writes down: ``metrics.jsonl``, and the trackers of accelerate (TensorBoard, wandb)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpips_model.durable_files import replace_file
from train.trainer.errors import DAMAGES, TrainingError

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["TRACKERS", "MetricsLog", "checked_trackers"]

# Tracker -> the module it needs.
TRACKERS = {"tensorboard": "tensorboard", "wandb": "wandb"}


def checked_trackers(names: tuple[str, ...]) -> list[str]:
    """Return trackers by name.

    Raises:
        TrainingError: One is unknown, or what it needs is not installed.
    """
    for name in names:
        if name not in TRACKERS:
            raise TrainingError(f"there is no tracker {name!r}; choose from {', '.join(TRACKERS)}")
        if find_spec(TRACKERS[name]) is None:
            raise TrainingError(f"the tracker {name} is not installed; install it with: pip install {TRACKERS[name]}")
    return list(names)


class MetricsLog:
    """Lines of JSON, one a record, and the same numbers to the trackers; one process writes.

    A record has ``kind`` ("train", "validation" or "event") and ``step``. When a run is resumed, records beyond the
    state it goes on from are removed, so that the file is that of a run that was never stopped, times aside.

    Args:
        path: The file.
        accelerator: Whose trackers are told.
        step: Updates done.
    """

    def __init__(self, path: Path, accelerator: Accelerator, *, step: int) -> None:
        self._accelerator = accelerator
        self._stream = None
        if accelerator.is_main_process:
            if path.exists():
                replace_file(path, b"".join(_lines_until(path, step)))
            self._stream = open(path, "a", encoding="utf-8")  # noqa: SIM115  (closed by close)

    def write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Add a record."""
        if self._stream is None:
            return
        # NaN is no JSON: what is not finite is written as a word.
        record = {"kind": kind, "step": step, **{name: _json_value(value) for name, value in values.items()}}
        self._stream.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
        self._stream.flush()
        numbers = {f"{kind}/{name}": value for name, value in values.items() if isinstance(value, (int, float))}
        if numbers:
            self._accelerator.log(numbers, step=step)

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()


def _json_value(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not abs(value) < float("inf") else value


def _lines_until(path: Path, step: int) -> list[bytes]:
    """The lines that a kill left whole, of updates up to a step; none of step 0, from which a run begins anew."""
    number, kept = 0, []
    try:
        for line in path.read_bytes().split(b"\n")[:-1]:
            number += 1
            place = json.loads(line)["step"]
            if type(place) is not int or place < 0:
                raise ValueError(f"step is {place!r}")
            if place <= step and step:
                kept.append(line + b"\n")
    except DAMAGES as error:
        raise TrainingError(
            f"{path} is damaged (line {number}: {error}); move it away, and --resume goes on without it"
        ) from error
    return kept
