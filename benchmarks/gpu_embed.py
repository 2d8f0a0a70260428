"""How fast late fusion embeds on a GPU: a random model of the 8B shape in bfloat16.

Prints images a second for 1 and 8 aspects at 768 image tokens, the share of the card's matrix rate that this reaches,
and the peak memory. The matrix rate is measured here, as the best of square bfloat16 products, not taken from a data
sheet. The work of an image is counted from the shapes: 2 · weights of the linear maps for each token they see, and
4 · width · length² / 2 for causal attention of the prefix, in full for the suffixes and the vision tower.

Needs one GPU with about 40 GB; weights are random, so no model is fetched. ``--small`` shrinks the model to try the
program itself, on the CPU, too.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.fixtures.qwen import make_backbone
from tpips_model.aspects import late_fusion_prompt
from tpips_model.qwen.backbone import Backbone
from tpips_model.qwen.backbone_loading import load_backbone
from tpips_model.qwen.chat import late_prefix, late_suffix
from tpips_model.qwen.late_fusion import LateFusion

ASPECTS = ("brushwork", "color palette", "lighting", "composition", "subject", "mood", "texture", "time of day")
TEXT_8B = {
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 5000000.0,
        "mrope_interleaved": True,
        "mrope_section": [24, 20, 20],
    },
}
VISION_8B = {
    "depth": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_heads": 16,
    "num_position_embeddings": 2304,
    "out_hidden_size": 4096,
    "deepstack_visual_indexes": [8, 16, 24],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="the tests' tiny model, to try this program")
    parser.add_argument("--images", type=int, default=64, help="images in a measured run")
    parser.add_argument("--max-tokens-per-batch", type=int, default=32768)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not options.small:
        parser.error("torch sees no GPU here; --small tries the program on the CPU")
    rate = measured_matrix_rate(device, size=512 if options.small else 8192)
    model = LateFusion(random_backbone(device, small=options.small), max_tokens_per_batch=options.max_tokens_per_batch)
    # 24 × 32 tokens of 32 × 32 pixels are 768 image tokens.
    images = [torch.rand(3, 768, 1024) for _ in range(options.images)]
    figures: dict[str, Any] = {"device": device_name(device), "matrix_tflops": rate / 1e12, "image_tokens": 768}
    print(f"{figures['device']}: {rate / 1e12:.1f} TFLOP/s in bfloat16 products")
    for count in (1, 8):
        figures[f"aspects_{count}"] = row = measure(model, images, ASPECTS[:count], device, rate)
        print(
            f"{count} aspects: {row['images_per_second']:.2f} images/s, {row['tflop_per_image']:.2f} TFLOP an image, "
            f"{100 * row['share_of_matrix_rate']:.1f} % of the matrix rate, peak {row['peak_gib']:.1f} GiB"
        )
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def random_backbone(device: torch.device, *, small: bool) -> Backbone:
    """Return a backbone of random weights, made on the device: nothing is read but tokenizer and settings."""
    from transformers import Qwen3VLConfig, Qwen3VLModel

    with TemporaryDirectory() as folder:
        tiny = load_backbone(make_backbone(folder), device=device, dtype=torch.bfloat16)
    if small:
        return tiny
    ids = {key: getattr(tiny.config, key) for key in ("image_token_id", "video_token_id", "vision_start_token_id")}
    config = Qwen3VLConfig(text_config=TEXT_8B, vision_config=VISION_8B, **ids)
    config._attn_implementation = "sdpa"
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with device:
            model = Qwen3VLModel(config)
    finally:
        torch.set_default_dtype(before)
    backbone = Backbone(model, chat=tiny.chat, preprocess=tiny.preprocess, name="random-8B")
    return backbone.eval().requires_grad_(False)


def measure(
    model: LateFusion, images: list[torch.Tensor], aspects: tuple[str, ...], device: torch.device, rate: float
) -> dict[str, float]:
    """Return the figures for one number of aspects."""
    model.embed(images[:4], aspects)  # warms up
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds = timed(lambda: model.embed(images, aspects), device)
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
    work = operations(model, aspects)
    per_second = len(images) / seconds
    return {
        "images_per_second": per_second,
        "tflop_per_image": work / 1e12,
        "share_of_matrix_rate": work * per_second / rate,
        "peak_gib": peak / 2**30,
    }


def operations(model: LateFusion, aspects: tuple[str, ...]) -> float:
    """Return the floating-point operations of one image, as this file's head counts them."""
    backbone = model.backbone
    text, vision = backbone.config.text_config, backbone.config.vision_config
    prefix = len(late_prefix(backbone.chat, 768))
    lengths = [len(late_suffix(backbone.chat, late_fusion_prompt(aspect))) for aspect in aspects]
    patches = 768 * backbone.preprocess.merge_size**2
    language = 2 * weights(backbone.language_model.layers) * (prefix + sum(lengths))
    width = text.num_attention_heads * text.head_dim * text.num_hidden_layers
    attention = 2 * width * prefix**2 + sum(4 * width * length * (prefix + length / 2) for length in lengths)
    tower = 2 * weights(backbone.visual.blocks) * patches + 4 * vision.depth * vision.hidden_size * patches**2
    mergers = 2 * (weights(backbone.visual.merger) + weights(backbone.visual.deepstack_merger_list)) * 768
    return float(language + attention + tower + mergers)


def weights(module: torch.nn.Module) -> int:
    """Return how many weights the linear maps of a module have."""
    return sum(each.weight.numel() for each in module.modules() if isinstance(each, torch.nn.Linear))


def measured_matrix_rate(device: torch.device, *, size: int) -> float:
    """Return floating-point operations a second of the best of several square bfloat16 products."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    a @ b
    return max(10 * 2 * size**3 / timed(lambda: [a @ b for _ in range(10)], device) for _ in range(5))


def timed(work: Callable[[], Any], device: torch.device) -> float:
    """Return the seconds a piece of work takes, all of it done."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def device_name(device: torch.device) -> str:
    """Return the card's name."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


if __name__ == "__main__":
    main()
