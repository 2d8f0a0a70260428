"""Reading the bundled model's safetensors files, with errors a user can act on."""

from __future__ import annotations

import os
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from tpips_model.errors import ModelError

__all__ = ["read_tensors"]


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a safetensors file.

    Returns:
        The tensors by name, as stored, and the file's metadata.

    Raises:
        ModelError: The file is missing or is no safetensors file.
    """
    path = Path(path)
    if not path.is_file():
        raise ModelError(f"model file {path} is missing; reinstall the package, or make it with `tpips-train mini`")
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ModelError(f"model file {path} is damaged ({error}); reinstall the package") from error
