"""Two processes train to what one trains to, their weights copied (DDP) or spread (FSDP)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from accelerate import DistributedType
from safetensors.torch import load_file

from tests.fixtures.judgements import write_triplets
from tests.fixtures.training import SIDE, records, tiny_backbone, tiny_config
from train.trainer import TrainingError
from train.trainer.processes import make_accelerator

# Meets over a file and the loopback device, so that no port is needed; then it is the command itself.
MEET = """
import os, sys
import torch.distributed
rank = int(os.environ["RANK"])
torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv.pop(1), rank=rank, world_size=2)
"""
COMMAND = "from train.command_line import main\nmain()\n"
# accelerate shards on GPUs alone; this is what it does there, by torch's own function.
SHARD = """
import torch
from accelerate import DistributedType
from accelerate import Accelerator
from torch.distributed.fsdp import fully_shard
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextDecoderLayer

copied = Accelerator.prepare

def prepare(accelerator, module, optimizer):
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    groups = [[names[id(parameter)] for parameter in group["params"]] for group in optimizer.param_groups]
    for block in module.modules():
        if isinstance(block, Qwen3VLTextDecoderLayer):
            fully_shard(block)
    fully_shard(module)
    parameters = dict(module.named_parameters())
    for group, learning in zip(optimizer.param_groups, groups):
        group["params"] = [parameters[name] for name in learning]
    return module, copied(accelerator, optimizer)

Accelerator.prepare = prepare
"""
PROGRAMS = {"ddp": MEET + COMMAND, "fsdp": MEET + SHARD + COMMAND}


def together(program: str, meeting: Path, arguments: list[str]) -> None:
    """Run a program in two processes and wait for both."""
    meeting.unlink(missing_ok=True)
    processes = []
    for rank in range(2):
        environment = {
            **os.environ,
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29500",
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-c", program, str(meeting), *arguments]
        processes.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    try:
        for process in processes:
            _, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors[-2000:]
    finally:
        for process in processes:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize(("way", "preset"), [("ddp", "late-fusion"), ("fsdp", "early-fusion")])
def test_two_processes_are_one(way: str, preset: str, tmp_path: Path) -> None:
    backbone, data = tiny_backbone(tmp_path / "backbone"), write_triplets(tmp_path / "data")
    settings = {
        "backbone": backbone,
        "lora_rank": 2,
        "lr": 1e-2,
        "effective_batch": 5,  # an odd number of passes: one process repeats one, for nothing
        "min_pixels": SIDE * SIDE,
        "max_pixels": SIDE * SIDE,
        "save_every": 2,
    }
    options = ["--preset", preset, "--data", str(data), "--validation", str(data), "--cpu"]
    options += [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    for name, steps in (("one", 4), ("two", 2), ("two", 4)):
        # Two processes stop after half of the run, which is planned for four steps all along, and are resumed.
        arguments = ["run", "--out", str(tmp_path / name), *options, "--set", "steps=4"]
        if name == "one":
            subprocess.run([sys.executable, "-m", "train.command_line", *arguments], check=True, capture_output=True)
            continue
        resume = ["--resume"] if steps == 4 else []
        together(_stopped(PROGRAMS[way], steps), tmp_path / "meeting", [*arguments, *resume])
    first, second = (load_file(tmp_path / name / "last/adapter.safetensors") for name in ("one", "two"))
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        torch.testing.assert_close(second[name], tensor, atol=1e-5, rtol=1e-4)
    for mine, theirs in zip(records(tmp_path / "one"), records(tmp_path / "two"), strict=True):
        assert theirs.pop("kind") == mine.pop("kind")
        assert theirs == pytest.approx(mine, rel=1e-4, abs=1e-5)


def _stopped(program: str, steps: int) -> str:
    """Return a program in which one process is asked to stop once so many steps are done; both do."""
    if steps == 4:
        return program
    ask = f"""
from train.trainer.trainer import Trainer
share = Trainer._share

def asked(trainer, step):
    if step == {steps} and rank == 1:  # while update {steps} is prepared, in advance
        import signal
        signal.raise_signal(signal.SIGTERM)
    return share(trainer, step)

Trainer._share = asked
"""
    ends = "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 130, end.code\n"
    return program.replace(COMMAND, ask + COMMAND.replace("main()\n", ends))


class Sharded:
    """What ``make_accelerator`` looks at of an accelerator under FSDP."""

    def __init__(self, version: int) -> None:
        self.distributed_type = DistributedType.FSDP
        self.state = SimpleNamespace(fsdp_plugin=SimpleNamespace(fsdp_version=version))


@pytest.mark.parametrize(
    ("kind", "version", "message"),
    [("early", 1, "FSDP version 1 is not supported"), ("late", 2, "late fusion cannot be trained with FSDP")],
)
def test_ways_that_cannot_be_trained_are_refused(
    kind: str, version: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accelerate.Accelerator", lambda **_: Sharded(version))
    with pytest.raises(TrainingError, match=message):
        make_accelerator(tiny_config(kind, "nowhere"), (), tmp_path, cpu=True)
