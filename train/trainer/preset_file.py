"""Settings of a training run in a file, such as the best of a sweep."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tpips_model.durable_files import replace_file
from train.trainer.config import TrainingConfig
from train.trainer.errors import DAMAGES, TrainingError

__all__ = ["read_preset", "write_preset"]

FORMAT, FORMAT_VERSION = "tpips-training-preset", 1


def write_preset(path: Path, config: TrainingConfig, *, facts: Mapping[str, Any]) -> None:
    """Write settings, and facts about where they are from, as JSON; the file is there wholly or as it was."""
    record = {"format": FORMAT, "format_version": FORMAT_VERSION, "config": asdict(config), "facts": dict(facts)}
    replace_file(path, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())


def read_preset(path: Path) -> TrainingConfig:
    """Return the settings of a preset file.

    Raises:
        TrainingError: It cannot be read, is none, or holds settings that do not exist or are out of range.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if (record["format"], record["format_version"]) != (FORMAT, FORMAT_VERSION):
            raise ValueError(f"format {record['format']!r} version {record['format_version']!r}")
        settings: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in record["config"].items()
        }
        return TrainingConfig(**settings)
    except DAMAGES as error:
        raise TrainingError(f"{path} is no preset file ({error}); give one that tpips-train sweep wrote") from error
