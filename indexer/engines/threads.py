"""How many threads a process may use, and how they are shared out."""

from __future__ import annotations

import os
import sys

__all__ = ["cores", "decode_threads", "limit_threads", "thread_variables", "threads_each"]

_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Decoders feed one model; more of them than this keep only memory busy.
_MOST_DECODERS = 8


def cores() -> int:
    """Return how many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def decode_threads(threads: int) -> int:
    """Return how many threads decode where ``threads`` are there for the model, which needs them more."""
    return max(1, min(_MOST_DECODERS, threads - 1))


def threads_each(workers: int, *, of: int) -> int:
    """Return how many threads each worker may use of so many cores, or fewer if the user says so."""
    share = max(1, of // workers)
    given = os.environ.get("OMP_NUM_THREADS", "")
    return min(share, int(given)) if given.isdecimal() and int(given) else share


def thread_variables(threads: int) -> dict[str, str]:
    """Return the environment of a process that is to use so many threads; what is set already is left."""
    return {name: str(threads) for name in _VARIABLES if name not in os.environ}


def limit_threads(threads: int) -> None:
    """Let PyTorch, if it is loaded, use so many threads."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)
