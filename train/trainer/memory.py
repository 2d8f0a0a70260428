"""What to do when a GPU's memory does not suffice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from train.trainer.errors import TrainingError

__all__ = ["memory_advised"]


@contextmanager
def memory_advised() -> Iterator[None]:
    """Turn torch's out-of-memory error into one that says which settings take less.

    Raises:
        TrainingError: The memory did not suffice.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        reason = next(iter(str(error).splitlines()), "out of memory")
        raise TrainingError(
            f"the memory does not suffice ({reason}); set checkpointing=true, a smaller max_pixels, "
            "max_tokens_per_batch or aspects_per_step, or train over several GPUs with FSDP"
        ) from error
