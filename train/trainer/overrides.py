"""``name=value`` from the command line into the typed fields of a config."""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Union, get_args, get_origin, get_type_hints

from train.trainer.config import TrainingConfig
from train.trainer.errors import TrainingError

__all__ = ["with_overrides"]

_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def with_overrides(config: TrainingConfig, overrides: Sequence[str]) -> TrainingConfig:
    """Return a config with some settings replaced.

    Args:
        config: The settings that are kept.
        overrides: ``"lr=1e-4"``, ``"matryoshka_dims=512,256"``, ``"steps=none"``; a later one wins.

    Raises:
        TrainingError: There is no such setting, or the value is not of its type.

    Examples:
        >>> with_overrides(TrainingConfig(kind="late"), ["lr=1e-4", "matryoshka_dims=8,4"]).matryoshka_dims
        (8, 4)
    """
    hints = get_type_hints(TrainingConfig)
    values: dict[str, Any] = {}
    for override in overrides:
        name, separator, text = override.partition("=")
        name = name.strip().replace("-", "_")
        if not separator or name not in hints:
            raise TrainingError(f"the setting {override!r} is unknown; give name=value with one of {', '.join(hints)}")
        try:
            values[name] = _parsed(text.strip(), hints[name])
        except ValueError as error:
            raise TrainingError(f"the setting {override!r} cannot be read: {error}") from error
    return replace(config, **values)


def _parsed(text: str, hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        if text.lower() in ("none", ""):
            return None
        hint = next(kind for kind in get_args(hint) if kind is not type(None))
    if get_origin(hint) is tuple:
        return tuple(_parsed(part.strip(), get_args(hint)[0]) for part in text.split(",") if part.strip())
    if hint is bool:
        if text.lower() not in _FLAGS:
            raise ValueError("true or false is expected")
        return _FLAGS[text.lower()]
    if hint is int:
        return int(text)
    if hint is float:
        return float(text)
    return text
