"""The folder of a run, and whether it may be begun or gone on with.

run.json         config, data and their fingerprints
metrics.jsonl    a record an update, a validation, an event
states/          what ``--resume`` goes on from, the newest alone
last/, best/     trained models that ``load_model`` takes: the newest, and the one of the best validation agreement
tensorboard/     if that tracker is on
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from tpips_model.durable_files import replace_file
from train.trainer.config import TrainingConfig
from train.trainer.errors import DAMAGES, TrainingError

__all__ = ["RunDirectory", "read_run"]

FORMAT, FORMAT_VERSION = "tpips-training-run", 1
# Settings that change no weight of a run and may be other when it is resumed.
MAY_CHANGE = ("workers", "save_every", "max_bad_steps")


class RunDirectory:
    """Where the files of a run are.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = path / "run.json"
        self.metrics = path / "metrics.jsonl"
        self.states = path / "states"
        self.last = path / "last"
        self.best = path / "best"

    def check_new(self) -> None:
        """Raise a ``TrainingError`` if the folder holds a run already."""
        _check_folders(self.path)
        if self.run.exists():
            raise TrainingError(
                f"{self.path} holds a run already; go on with it by --resume, or give another folder with --out"
            )
        if self.path.is_dir() and any(self.path.iterdir()):
            raise TrainingError(f"{self.path} is not empty and holds no run; give another folder with --out")

    def check_same(self, config: TrainingConfig, facts: Mapping[str, Any]) -> None:
        """Raise a ``TrainingError`` if the folder holds no run, or one with other settings or data."""
        before, before_facts = read_run(self.path)
        _check_folders(self.states, self.last, self.best)
        names = [field.name for field in fields(config) if field.name not in MAY_CHANGE]
        other = [
            f"{name} {getattr(before, name)!r} then and {getattr(config, name)!r} now"
            for name in names
            if getattr(before, name) != getattr(config, name)
        ]
        other += [
            f"{name} {before_facts.get(name)!r} then and {value!r} now"
            for name, value in facts.items()
            if before_facts.get(name) != value
        ]
        if other:
            raise TrainingError(
                f"the run in {self.path} cannot be resumed with other settings: {'; '.join(other)}. Give those it was "
                "begun with, or begin another with another --out"
            )

    def begin(self, config: TrainingConfig, facts: Mapping[str, Any]) -> None:
        """Write down what the run is."""
        self.path.mkdir(parents=True, exist_ok=True)
        record = {"format": FORMAT, "format_version": FORMAT_VERSION, "config": asdict(config), "facts": dict(facts)}
        replace_file(self.run, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())


def read_run(path: Path) -> tuple[TrainingConfig, dict[str, Any]]:
    """Return the config and the facts that a run was begun with.

    Raises:
        TrainingError: The folder holds no run, or its record is damaged.
    """
    place = path / "run.json"
    try:
        record = json.loads(place.read_text(encoding="utf-8"))
        if (record["format"], record["format_version"]) != (FORMAT, FORMAT_VERSION):
            raise ValueError(f"format {record['format']!r} version {record['format_version']!r}")
        settings: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in record["config"].items()
        }
        facts = record["facts"]
        for name in ("data", "validation", "images root"):
            if not isinstance(facts.get(name), (str, types.NoneType)):
                raise ValueError(f"{name} is {facts[name]!r}, not text")
        return TrainingConfig(**settings), dict(facts)
    except FileNotFoundError as error:
        raise TrainingError(f"{path} holds no run to resume; begin one without --resume") from error
    except (TrainingError, *DAMAGES) as error:
        raise TrainingError(f"{place} is damaged ({error}); begin another run with another --out") from error


def _check_folders(*places: Path) -> None:
    for place in places:
        if place.exists() and not place.is_dir():
            raise TrainingError(
                f"{place} is no folder, but a run writes one there; move it away, or give another --out"
            )
