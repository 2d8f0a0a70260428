"""How many examples a second a training step takes in, all aspects of a triplet at once against one at a time.

A random Qwen3-VL on the CPU, one triplet of pictures under eight aspects, forward and backward. One at a time is the
paper's way: every aspect is an example with a pass of its own. At once, the vision tower runs once for all aspects,
and in late fusion so does the prefix of system turn and image. Ratios are of the shortest of several runs of each,
interleaved in this process, so that other work on the machine disturbs them least; the gradients are compared, too.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from rich.console import Console
from rich.table import Table
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.fixtures.qwen import make_backbone, pictures
from tests.fixtures.training import PROMPT_WORDS, tiny_config
from tpips_model.aspects import Aspect
from train.judgements.records import Judgement
from train.trainer.order import MicroBatch
from train.trainer.scoring import JudgingModule
from train.trainer.trainable import build_trainable

ASPECTS = ("lighting", "mood", "brushwork", "color palette", "subject matter", "camera angle", "texture", "overall")
# (rows, columns) of image tokens of a picture: 512.
GRID = (16, 32)
SIZES: Mapping[bool, Mapping[str, int]] = {
    True: {"hidden": 64, "layers": 4, "intermediate": 128},
    False: {"hidden": 256, "layers": 8, "heads": 8, "intermediate": 512},
}


def main() -> None:
    options = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        backbone = make_backbone(folder, **SIZES[options.quick], words=(*PROMPT_WORDS, *" ".join(ASPECTS).split()))
        rows = [measure(kind, backbone, repeats=options.repeats) for kind in options.kinds]
    report(rows)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def measure(kind: str, backbone: Path, *, repeats: int) -> dict[str, Any]:
    """Return a kind's examples a second either way, their ratio, and the largest difference between gradients."""
    module, judgements, images = prepared(kind, backbone)
    at_once = [MicroBatch(tuple(judgements), seed=0, weight=1.0)]
    apart = [MicroBatch((judgement,), seed=0, weight=1.0) for judgement in judgements]
    work: dict[str, Callable[[], dict[str, Tensor]]] = {
        "at once": lambda: gradients(module, at_once, images),
        "one at a time": lambda: gradients(module, apart, images),
    }
    found = {name: run() for name, run in work.items()}  # warms up, too
    seconds: dict[str, float] = {name: float("inf") for name in work}
    for _ in range(repeats):
        for name, run in work.items():
            began = time.perf_counter()
            run()
            seconds[name] = min(seconds[name], time.perf_counter() - began)
    difference = max(
        float((gradient - found["one at a time"][name]).abs().max()) for name, gradient in found["at once"].items()
    )
    return {
        "kind": kind,
        "aspects": len(ASPECTS),
        "image_tokens": GRID[0] * GRID[1],
        "examples_per_second_at_once": len(ASPECTS) / seconds["at once"],
        "examples_per_second_one_at_a_time": len(ASPECTS) / seconds["one at a time"],
        "ratio": seconds["one at a time"] / seconds["at once"],
        "max_gradient_difference": None if kind == "triplet" else difference,
        "max_gradient": max(float(gradient.abs().max()) for gradient in found["one at a time"].values()),
    }


def prepared(kind: str, backbone: Path) -> tuple[JudgingModule, list[Judgement], dict[Any, Image.Image]]:
    """Return a module in training without dropout, a triplet under all aspects, and its pictures."""
    pixels = GRID[0] * GRID[1] * 32 * 32
    config = tiny_config(kind, backbone, lora_rank=16, lora_dropout=0.0, min_pixels=pixels, max_pixels=pixels)
    trainable = build_trainable(config, torch.device("cpu"))
    module = JudgingModule(trainable.model, config, trainable.computed_in).train()
    generator = torch.Generator().manual_seed(5)
    for name, parameter in module.named_parameters():
        if ".lora_B" in name:  # fresh adapters do nothing, and half of their gradients are zero
            parameter.data.copy_(torch.randn(parameter.shape, generator=generator) * 0.05)
    sources = tuple(_Named(f"{number}.png") for number in range(3))
    painted = pictures([(GRID[1] * 32, GRID[0] * 32)] * 3)
    judgements = [
        Judgement("triplet", sources, Aspect(aspect), (0.8, 0.1, 0.1) if number % 2 else (0.1, 0.1, 0.8))
        for number, aspect in enumerate(ASPECTS)
    ]
    return module, judgements, dict(zip(sources, painted, strict=True))


def gradients(
    module: JudgingModule, batches: Sequence[MicroBatch], images: dict[Any, Image.Image]
) -> dict[str, Tensor]:
    """Return the gradients of the mean loss over the aspects."""
    module.zero_grad(set_to_none=True)
    for batch in batches:
        (module(batch, images).losses.sum() / len(ASPECTS)).backward()
    return {name: parameter.grad.clone() for name, parameter in module.named_parameters() if parameter.grad is not None}


def report(rows: Sequence[Mapping[str, Any]]) -> None:
    table = Table(title=f"{len(ASPECTS)} aspects a triplet, {GRID[0] * GRID[1]} image tokens a picture")
    for heading in ("kind", "at once, examples/s", "one at a time", "ratio", "gradients differ by", "of at most"):
        table.add_column(heading, justify="right")
    for row in rows:
        difference = row["max_gradient_difference"]
        table.add_row(
            row["kind"],
            f"{row['examples_per_second_at_once']:.2f}",
            f"{row['examples_per_second_one_at_a_time']:.2f}",
            f"{row['ratio']:.2f}",
            "other orderings" if difference is None else f"{difference:.1e}",
            f"{row['max_gradient']:.1e}",
        )
    Console().print(table)


class _Named:
    """A picture known by its name alone."""

    def __init__(self, key: str) -> None:
        self.key = key

    def load(self) -> Image.Image:
        raise AssertionError("pictures are given decoded")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the tiny model, late fusion alone")
    parser.add_argument("--kinds", nargs="+", choices=("late", "mid", "early", "triplet"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args()
    options.kinds = options.kinds or (["late"] if options.quick else ["late", "mid", "early", "triplet"])
    return options


if __name__ == "__main__":
    main()
