"""What a backbone's weight files say they hold, compared with its settings before memory is taken for either."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from tpips_model.errors import ModelError
from tpips_model.qwen.model_files import check_regular_file

__all__ = ["check_weight_headers"]

_FLOATS = frozenset(("F64", "F32", "F16", "BF16"))
# Blocks of each part: every one has weights of its own.
_COUNTS = {"text_config": ("num_hidden_layers",), "vision_config": ("depth",)}
# The sides of matrices that each part has.
_MATRICES = {
    "text_config": (("vocab_size", "hidden_size"), ("intermediate_size", "hidden_size"), ("num_attention_heads",)),
    "vision_config": (("intermediate_size", "hidden_size"), ("num_position_embeddings", "hidden_size")),
}


def check_weight_headers(directory: Path, settings: Mapping[str, Any]) -> None:
    """Refuse settings that ask for more than the weight files hold, and weights that are no floating-point numbers.

    A model is built in memory before its weights are read, so that a settings file of a few bytes could otherwise ask
    for any amount.

    Args:
        directory: Holds the ``*.safetensors``.
        settings: The config.json of a Qwen3-VL.

    Raises:
        ModelError: The files are damaged, or do not go with the settings.
    """
    tensors, numbers = _sizes(directory)
    for part in _COUNTS:
        held = settings.get(part)
        if not isinstance(held, Mapping):
            raise ModelError(f'the config.json in {directory} has no "{part}"; a Qwen3-VL has one')
        for bound, groups in ((tensors, [(name,) for name in _COUNTS[part]]), (numbers, _MATRICES[part])):
            for names in groups:
                asked = [held.get(name) for name in names]
                if any(not isinstance(one, int) or isinstance(one, bool) or one < 1 for one in asked):
                    raise ModelError(
                        f"the config.json in {directory} has {part} with {' and '.join(names)} of {asked!r:.80}; "
                        "expected whole numbers from 1 on"
                    )
                if math.prod(one or 0 for one in asked) > bound:
                    raise ModelError(
                        f"the weights in {directory} are not this model's: its config.json asks for {part} with "
                        f"{' × '.join(names)} of {' × '.join(map(str, asked)):.80}, and they are {tensors:,} tensors "
                        f"of {numbers:,} numbers"
                    )


def _sizes(directory: Path) -> tuple[int, int]:
    """Return how many tensors the weight files hold, and how many numbers."""
    tensors = numbers = 0
    for path in sorted(directory.glob("*.safetensors")):
        check_regular_file(path)
        try:
            with safe_open(path, framework="np") as file:
                for name in file.keys():  # noqa: SIM118 - it is no mapping
                    held = file.get_slice(name)
                    if held.get_dtype() not in _FLOATS:
                        raise ModelError(
                            f"{path} holds {name} of type {held.get_dtype()}; weights of {', '.join(sorted(_FLOATS))} "
                            "are needed, so give a model that is not quantized"
                        )
                    tensors, numbers = tensors + 1, numbers + math.prod(held.get_shape())
        except (SafetensorError, OSError) as error:
            raise ModelError(f"cannot load the backbone in {directory}: {path.name}: {error}") from error
    return tensors, numbers
