"""The README of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["model_card"]

WHAT = {
    "late": "Late fusion: one image and one aspect to a unit vector; the similarity of two images is the cosine.",
    "mid": "Mid fusion: the distance between the activations of two images under one aspect.",
    "early": "Early fusion: both images and the aspect in one sequence; the similarity is the cosine of two registers.",
    "triplet": "Triplet head: which of three images is the odd one out under one aspect.",
}
USE = {
    "late": 'vectors = model.embed(images, ["lighting", "color palette"])\nscore = model.similarity(a, b, "lighting")',
    "mid": 'distance = model.distance(a, b, "lighting")',
    "early": 'score = model.similarity(a, b, "lighting")',
    "triplet": 'probabilities = model.odd_one_out([a, b, c], "lighting")',
}


def model_card(config: Mapping[str, Any]) -> str:
    """Return the card of a checkpoint, in Markdown, from its ``config.json``."""
    backbone, lora = config["backbone"], config["lora"]
    revision = f", revision `{backbone['revision']}`" if backbone["revision"] else ""
    adapters = "none"
    if lora is not None:
        adapters = f"LoRA of rank {lora['r']}, alpha {lora['alpha']}, on {', '.join(lora['targets'])}"
    facts = "\n".join(f"| {name} | {value} |" for name, value in config["training"].items())
    training = f"| fact | value |\n|---|---|\n{facts}" if facts else "No facts of the training were recorded."
    return f"""---
base_model: {backbone["name"]}
library_name: tpips-retrieval
---
# TPIPS, {config["kind"]}

{WHAT[config["kind"]]}

- Backbone: `{backbone["name"]}`{revision}
- Adapters: {adapters}
- Image budget: {config["preprocessing"]["min_pixels"]} to {config["preprocessing"]["max_pixels"]} pixels
- Settings: {", ".join(f"{name} = {value!r}" for name, value in config["settings"].items()) or "none"}

## Use

```python
from tpips_model import load_model

model = load_model("this directory")
{USE[config["kind"]]}
```

## Training

{training}
"""
