"""How much ten aspects of an image cost, against one aspect and against plain forward passes.

A random Qwen3-VL on the CPU embeds one picture under 1, 2, 4, … aspects: ``LateFusion.embed`` with its shared prefix
against one pass of the library's own model for every aspect. Ratios are of the shortest of several runs of each,
interleaved in this process, so that other work on the machine disturbs them least.

The expected ratio, from the tokens that go through the language model (attention, which grows with the square of the
length, and the cost of a call left out): with V the vision tower's cost, c that of a token in the language model, P
the prefix's tokens and S those of one suffix,

    to one aspect      (V + c · (P + A · S)) / (V + c · (P + S))
    to plain forwards  (V + c · (P + A · S)) / (A · (V + c · (P + S)))

V and c are measured: the vision tower by itself, and what is left of a plain pass, divided by its P + S tokens.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.fixtures.qwen import make_backbone, pictures
from tpips_model.aspects import late_fusion_prompt
from tpips_model.qwen.backbone import Backbone
from tpips_model.qwen.backbone_loading import load_backbone
from tpips_model.qwen.chat import late_prefix, late_suffix
from tpips_model.qwen.late_fusion import LateFusion
from tpips_model.qwen.preprocessing import Patches

ASPECTS = (
    "brushwork",
    "color palette",
    "lighting",
    "composition",
    "subject matter",
    "camera angle",
    "texture of surfaces",
    "mood",
    "time of day",
    "depth of field",
)
# Whole words as in the published vocabulary; the aspects' own are longer here, byte by byte.
PROMPT_WORDS = ("system", "user", "assistant", "Represent", "the", "similarity", "of", "image", "based", "on")
COUNTS = {False: (1, 2, 4, 10), True: (1, 10)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repeats and only 1 and 10 aspects")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--tokens", type=int, default=1024, help="image tokens, a square number")
    parser.add_argument("--hidden", type=int, default=512, help="width of the language model")
    parser.add_argument("--layers", type=int, default=12, help="blocks of the language model")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # The published proportions: MLPs of three times the width, two query heads to a key head.
        backbone = load_backbone(
            make_backbone(
                folder,
                hidden=options.hidden,
                layers=options.layers,
                heads=options.hidden // 64,
                key_value_heads=options.hidden // 128,
                intermediate=3 * options.hidden,
                vision_hidden=options.hidden // 4,
                spread=0.02,
                words=PROMPT_WORDS,
            )
        )
        repeats, step = (2, 3) if options.quick else (7, 1)
        rows = measure(LateFusion(backbone), options.tokens, COUNTS[options.quick], repeats=repeats, step=step)
    report(rows, options.tokens)
    if options.json is not None:
        kept = ("aspects", "ratio_to_one", "ratio_to_plain", "max_difference")
        text = json.dumps([{name: row[name] for name in kept} for row in rows], indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")


def measure(
    model: LateFusion, tokens: int, counts: tuple[int, ...], *, repeats: int, step: int
) -> list[dict[str, Any]]:
    """Return a row for each number of aspects; every ``step``-th aspect's vector is compared with the plain pass."""
    side = round(tokens**0.5) * model.backbone.preprocess.factor
    picture = pictures([(side, side)])[0]
    patches = model.backbone.preprocess(picture)
    assert patches.tokens == tokens, f"{tokens} is no square number"
    work: dict[Any, Callable[[], Any]] = {
        count: lambda count=count: model.embed([picture], ASPECTS[:count]) for count in counts
    }
    work["plain"] = lambda: plain_forward(model, patches, ASPECTS[0])
    work["vision"] = lambda: model.features([patches])
    seconds, results = interleaved(work, repeats)
    suffix = len(late_suffix(model.backbone.chat, late_fusion_prompt(ASPECTS[0])))
    prefix = len(late_prefix(model.backbone.chat, tokens))
    vision = seconds["vision"]
    per_token = (seconds["plain"] - vision) / (prefix + suffix)
    others = [plain_forward(model, patches, aspect) for aspect in ASPECTS[step : max(counts) : step]]
    plain = np.stack([results["plain"], *others])
    rows = []
    for count in counts:
        suffixes = sum(len(late_suffix(model.backbone.chat, late_fusion_prompt(aspect))) for aspect in ASPECTS[:count])
        expected = vision + per_token * (prefix + suffixes)
        one = vision + per_token * (prefix + suffix)
        rows.append(
            {
                "aspects": count,
                "seconds": seconds[count],
                "ratio_to_one": seconds[count] / seconds[counts[0]],
                "expected_to_one": expected / one,
                "ratio_to_plain": seconds[count] / (count * seconds["plain"]),
                "expected_to_plain": expected / (count * one),
                "max_difference": largest_difference(results[count][0, ::step], plain),
            }
        )
    return rows


def largest_difference(vectors: np.ndarray, plain: np.ndarray) -> float:
    """Return the largest difference of any coordinate, over the vectors that there are."""
    return float(np.abs(vectors - plain[: len(vectors)]).max())


@torch.no_grad()
def plain_forward(model: LateFusion, patches: Patches, aspect: str) -> np.ndarray:
    """Return one vector (D,) by the library's own model over the whole sequence."""
    chat = model.backbone.chat
    sequence = late_prefix(chat, patches.tokens) + late_suffix(chat, late_fusion_prompt(aspect))
    ids = torch.tensor([sequence])
    output = library_model(model.backbone)(
        input_ids=ids,
        pixel_values=patches.values,
        image_grid_thw=torch.tensor([[1, *patches.grid]]),
        mm_token_type_ids=(ids == chat.image).int(),
        use_cache=False,
    )
    return torch.nn.functional.normalize(output.last_hidden_state[0, -1], dim=0).numpy()


def library_model(backbone: Backbone) -> Any:
    """Return a ``Qwen3VLModel`` over the backbone's own weights."""
    from transformers import Qwen3VLModel

    with torch.device("meta"):
        model = Qwen3VLModel(backbone.config)
    model.visual, model.language_model = backbone.visual, backbone.language_model
    return model.eval()


@torch.no_grad()
def interleaved(work: dict[Any, Callable[[], Any]], repeats: int) -> tuple[dict[Any, float], dict[Any, Any]]:
    """Return the least seconds of each piece of work, run in turns so that drift hits all alike, and its result."""
    results = {name: run() for name, run in work.items()}  # warms up, too
    seconds: dict[Any, list[float]] = {name: [] for name in work}
    for _ in range(repeats):
        for name, run in work.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: min(times) for name, times in seconds.items()}, results


def report(rows: list[dict[str, Any]], tokens: int) -> None:
    table = Table(title=f"Late fusion over {tokens} image tokens, {torch.get_num_threads()} threads")
    for heading in ("aspects", "seconds", "to one", "expected", "to plain", "expected", "max difference"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            str(row["aspects"]),
            f"{row['seconds']:.2f}",
            f"{row['ratio_to_one']:.2f}",
            f"{row['expected_to_one']:.2f}",
            f"{row['ratio_to_plain']:.3f}",
            f"{row['expected_to_plain']:.3f}",
            f"{row['max_difference']:.1e}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
