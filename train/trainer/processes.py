"""One process or many, on a CPU or on GPUs: what accelerate makes of the command that started this one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from train.trainer.config import TrainingConfig
from train.trainer.errors import TrainingError

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["make_accelerator"]


def make_accelerator(config: TrainingConfig, trackers: Sequence[str], out: Path, *, cpu: bool) -> Accelerator:
    """Return the accelerator of a run.

    Mixed precision is the run's own (``JudgingModule``), so accelerate's is off whatever its configuration says.

    Raises:
        TrainingError: The processes are to be sharded in a way that the run's states cannot be written in.
    """
    from accelerate import Accelerator, DistributedDataParallelKwargs, DistributedType
    from accelerate.utils import ProjectConfiguration

    # Blocks beyond the last probed one get no gradient; only a model trained elsewhere can have such.
    spare = config.kind == "mid" and config.start is not None
    accelerator = Accelerator(
        cpu=cpu,
        mixed_precision="no",
        log_with=list(trackers) or None,
        project_config=ProjectConfiguration(project_dir=str(out), logging_dir=str(out / "tensorboard")),
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=spare)],
    )
    kind = accelerator.distributed_type
    if kind == DistributedType.FSDP and accelerator.state.fsdp_plugin.fsdp_version != 2:
        raise TrainingError("FSDP version 1 is not supported; give 'accelerate launch --use_fsdp --fsdp_version 2 …'")
    if kind == DistributedType.FSDP and config.kind == "late":
        # A block is called for the prefix, then for the suffixes; FSDP lets its weights go after the first backward.
        raise TrainingError(
            "late fusion cannot be trained with FSDP, which knows nothing of keys that one call of a block leaves for "
            "the next; use 'accelerate launch' without --use_fsdp (DDP), in which every GPU holds the frozen weights"
        )
    if kind not in (DistributedType.NO, DistributedType.FSDP) and not str(kind.value).startswith("MULTI_"):
        raise TrainingError(f"training over {kind.value} is not supported; use one process, DDP, or FSDP version 2")
    return accelerator
