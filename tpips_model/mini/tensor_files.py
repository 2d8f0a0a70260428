"""Reading the bundled model's safetensors files, with errors a user can act on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from tpips_model.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["TEXT_FILE", "WEIGHTS", "read_tensors", "read_tokens", "token_strings"]

WEIGHTS = Path(__file__).parent / "weights"
TEXT_FILE = "text.safetensors"


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a safetensors file.

    Returns:
        The tensors by name, as stored, and the file's metadata.

    Raises:
        ModelError: The file is missing or is no safetensors file.
    """
    path = _there(path)
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ModelError(f"model file {path} is damaged ({error}); reinstall the package") from error


def read_tokens(path: str | os.PathLike[str]) -> list[str]:
    """Read the word pieces of a text table and leave its vectors alone; needs no torch.

    Raises:
        ModelError: The file is missing, damaged, or no text table.
    """
    path = _there(path)
    try:
        with safe_open(path, framework="numpy") as file:
            stored = file.get_tensor("tokens")
    except (SafetensorError, OSError) as error:
        raise ModelError(f"model file {path} is damaged ({error}); reinstall the package") from error
    return token_strings(stored, path)


def token_strings(stored: NDArray[np.uint8], path: str | os.PathLike[str]) -> list[str]:
    """Turn a text table's "tokens", lines of UTF-8, into the word pieces.

    Raises:
        ModelError: They are no UTF-8.
    """
    try:
        return stored.tobytes().decode().split("\n")
    except UnicodeDecodeError as error:
        raise ModelError(f"the tokens of {os.fspath(path)} are damaged; reinstall the package") from error


def _there(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    if not path.is_file():
        raise ModelError(f"model file {path} is missing; reinstall the package, or make it with `tpips-train mini`")
    return path
