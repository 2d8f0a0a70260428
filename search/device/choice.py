"""Which devices a Searcher scans with: the CPU, unless a GPU is asked for."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence

from tpips_model.errors import TpipsError

__all__ = ["DeviceError", "chosen_devices", "cuda_devices"]


class DeviceError(TpipsError, ValueError):
    """A device that does not exist, has too little memory, or does not compute as precisely as the search needs."""


def chosen_devices(device: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the CUDA devices to scan with; none of them means the CPU's own exact path.

    Only a word that asks for a GPU imports torch, and "auto" does so only where NVIDIA's driver is installed.

    Args:
        device: ``None`` or "cpu"; "cuda" for all GPUs that torch sees; "cuda:0", "cuda:0,cuda:1" or a sequence of
            such names; or "auto", which is "cuda" where there is a GPU and "cpu" elsewhere.

    Raises:
        DeviceError: The name is none of these, or there is no such GPU.

    Examples:
        >>> chosen_devices(None), chosen_devices("cpu")
        ((), ())
    """
    text = device if isinstance(device, str) else "cpu" if device is None else ",".join(device)
    names = tuple(name.strip().lower() for name in text.split(","))
    if names == ("cpu",) or (names == ("auto",) and not _has_driver()):
        return ()
    there = cuda_devices()
    if names == ("auto",):
        return there
    if names == ("cuda",):
        names = there or names
    if len(set(names)) < len(names) or not set(names) <= set(there):
        raise DeviceError(
            f"device {text!r} is not to be had: {_what_there_is(there)}. Say 'cpu', 'cuda' for all GPUs, 'auto', or "
            "one or several different GPUs as in 'cuda:0,cuda:1'"
        )
    return names


def cuda_devices() -> tuple[str, ...]:
    """Return the names of the GPUs that torch can use."""
    import torch

    return tuple(f"cuda:{number}" for number in range(torch.cuda.device_count())) if torch.cuda.is_available() else ()


def _what_there_is(there: Sequence[str]) -> str:
    if there:
        return f"torch sees {', '.join(there)}"
    import torch

    build = "was built for CUDA but sees no GPU" if torch.version.cuda else "was built without CUDA"
    return f"torch {torch.__version__} {build}"


def _has_driver() -> bool:
    # Looking for the driver's library takes a millisecond, importing torch takes seconds.
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True
