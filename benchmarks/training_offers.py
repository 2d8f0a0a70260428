"""What the offers beyond the paper bring on procedural triplets: aspect contrast and Matryoshka losses.

Late fusion on a tiny random Qwen3-VL is trained three times with the same examples, order and steps: as in the paper,
with aspect contrast, and with Matryoshka losses. Then, on families that no training saw: the agreement, whole and on
vectors cut to a half and a quarter of their dims; and how often the model is confused: its choice is not people's own
under the aspect, but theirs under another aspect of the same triplet.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.fixtures.training import procedural_lesson
from tpips_model.loading import load_model
from train.agreement import agreement, estimate
from train.judgements.records import Judgement
from train.trainer.objective import choice_scores, cut
from train.trainer.order import grouped_by_item
from train.trainer.trainer import Trainer

# What a vision tower of random weights lets through, of which people say different things about one triplet.
ASPECTS = ("brightness", "warmth", "lighting", "mood", "palette", "color")


def main() -> None:
    options = _arguments()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        lesson = procedural_lesson(Path(folder), aspects=ASPECTS, steps=options.steps, families=options.families)
        half, quarter = lesson.dim // 2, lesson.dim // 4
        ways: Mapping[str, Mapping[str, Any]] = {
            "as the paper": {},
            "aspect contrast 0.3": {"aspect_contrast": 0.3},
            f"Matryoshka {half}, {quarter}": {"matryoshka_dims": (half, quarter)},
        }
        for number, (name, settings) in enumerate(ways.items()):
            out = Path(folder) / f"run-{number}"
            Trainer(lesson.config(effective_batch=16, **settings), lesson.data, (), out, cpu=True).run()
            model = load_model(out / "last", device="cpu")
            rows.append({"way": name} | measured(model, lesson.held_out, (None, half, quarter)))
    report(rows)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def measured(model: Any, judgements: Sequence[Judgement], dims: Sequence[int | None]) -> dict[str, Any]:
    """Return the agreement at each number of dims, its standard error, and the share of confused choices."""
    agreements: dict[int | None, list[float]] = {dim: [] for dim in dims}
    confused: list[bool] = []
    for group in grouped_by_item(judgements, 64):
        images = [picture.load() for picture in group.judgements[0].pictures]
        vectors = torch.from_numpy(model.embed(images, [one.aspect for one in group.judgements])).transpose(0, 1)
        votes = np.array([one.votes for one in group.judgements])
        for dim in dims:
            agreements[dim] += agreement(choice_scores(cut(vectors, dim), 3).numpy(), votes).tolist()
        choices, own = choice_scores(vectors, 3).argmax(1).numpy(), votes.argmax(1)
        confused += [bool(choice != mine and choice in own) for choice, mine in zip(choices, own, strict=True)]
    whole = estimate(agreements[None])
    cuts = {f"agreement at {dim} dims": estimate(agreements[dim]).mean for dim in dims if dim is not None}
    return {
        "agreement": whole.mean,
        "standard error": whole.standard_error,
        **cuts,
        "confused": float(np.mean(confused)),
    }


def report(rows: Sequence[Mapping[str, Any]]) -> None:
    table = Table(*rows[0], title="Held-out procedural triplets")
    for row in rows:
        table.add_row(*(value if isinstance(value, str) else f"{value:.1%}" for value in row.values()))
    Console().print(table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--families", type=int, default=400)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
