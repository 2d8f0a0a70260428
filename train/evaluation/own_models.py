"""Our models and the zero-shot baselines as judges."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from tpips_model.aspects import Aspect
from tpips_model.embedder import Embedder
from tpips_model.errors import ModelError
from tpips_model.loading import load_model
from tpips_model.metric import Metric
from tpips_model.qwen.backbone import Backbone
from tpips_model.qwen.backbone_loading import load_backbone
from tpips_model.qwen.late_fusion import LateFusion
from tpips_model.qwen.mid_fusion import MidFusion
from tpips_model.qwen.prompts import (
    early_fusion_tokens,
    mid_fusion_tokens,
    question_tokens,
    rating_prompt,
    triplet_head_prompt,
    two_afc_prompt,
    zero_shot_triplet_prompt,
)
from tpips_model.qwen.triplet_head import TripletHead
from tpips_model.qwen.weights_digest import weights_digest
from tpips_model.qwen.zero_shot import ZeroShotJudge
from train.evaluation.judges import Choose, Compare, EmbeddingJudge, Judge, ModelRow, PairJudge, TripletJudge

__all__ = [
    "judge_of_model",
    "load_own",
    "load_zero_shot",
    "load_zero_shot_mid",
    "load_zero_shot_rating",
    "parameter_count",
]

TYPES = {"late": "Late Fusion", "mid": "Mid-Fusion", "early": "Early Fusion", "triplet": "Triplet"}
# Raised whenever the same weights and pictures are to give other scores.
SCORES_VERSION = 1


def load_own(name: str, device: str | None) -> Judge:
    """Load what ``load_model`` loads: mini, late, mid and early fusion, a triplet head, or a bare backbone."""
    return judge_of_model(load_model(name, device=device), name=name)


def judge_of_model(model: Any, *, name: str) -> Judge:
    """Return the judge of a loaded model, such as one that is being trained.

    Args:
        model: An ``Embedder``, a ``Metric`` or a ``TripletHead``.
        name: What the tables call it.

    Raises:
        ModelError: None of the three.
    """
    if isinstance(model, TripletHead):
        row = ModelRow(TYPES["triplet"], "Ours", _size(model))
        return TripletJudge(name, _fingerprint(model), row, {"odd-one-out": _probabilities(model.odd_one_out)})
    if isinstance(model, Embedder):
        bare = isinstance(model, LateFusion) and model.prompt == "zero-shot"
        family = "Qwen3-VL-Emb" if bare else "Ours" if isinstance(model, LateFusion) else ""
        size = _size(model) if isinstance(model, torch.nn.Module) else "–"
        return EmbeddingJudge(name, model.fingerprint, ModelRow(TYPES["late"], family, size), model.embed)
    if isinstance(model, Metric) and isinstance(model, torch.nn.Module):
        untrained = isinstance(model, MidFusion) and model.head is None
        family = "Qwen3-VL-Emb" if untrained else "Ours"
        row = ModelRow(TYPES[str(model.kind)], family, _size(model))
        return PairJudge(name, _fingerprint(model), row, _similarities(model))
    raise ModelError(
        f"{name} is a {type(model).__name__}, which makes no vectors and compares no images; give a model of "
        "late, mid or early fusion, or a triplet head"
    )


def load_zero_shot(name: str, path: str, device: str | None) -> Judge:
    """Load a generative Qwen3-VL that is shown three images at once (Table 3, Triplet; Appendix C.3)."""
    model = ZeroShotJudge(load_backbone(path, device=device, generative=True))
    row = ModelRow("Triplet", "Qwen3-VL", _size(model.backbone))
    choose = {"odd-one-out": _probabilities(model.odd_one_out), "2afc": _probabilities(model.two_afc)}
    return TripletJudge(name, _fingerprint(model), row, choose)  # type: ignore[arg-type]


def load_zero_shot_rating(name: str, path: str, device: str | None) -> Judge:
    """Load a generative Qwen3-VL that rates pairs (Table 3, Early Fusion; Appendix C.3)."""
    model = ZeroShotJudge(load_backbone(path, device=device, generative=True))
    return PairJudge(
        name, _fingerprint(model), ModelRow("Early Fusion", "Qwen3-VL", _size(model.backbone)), _similarities(model)
    )


def load_zero_shot_mid(name: str, path: str, device: str | None) -> Judge:
    """Load a frozen backbone whose activations are compared, all weighing the same (Table 3, Mid-Fusion).

    Raises:
        ModelError: There is no such backbone or device, or it is a trained model.
    """
    model = load_model(path, device=device)
    if not isinstance(model, LateFusion) or model.prompt != "zero-shot":
        raise ModelError(f"{path} is a trained model; {name!r} needs a backbone without adapters, a Qwen3-VL-Embedding")
    return judge_of_model(MidFusion(model.backbone, learned_weights=False).eval(), name=name)


def parameter_count(module: torch.nn.Module) -> str:
    """Return how many parameters a module has, as Table 3 writes it: whole billions or millions, rounded down.

    >>> parameter_count(torch.nn.Linear(1000, 1000))
    '1M'
    """
    count = sum(parameter.numel() for parameter in module.parameters())
    return f"{count // 10**9}B" if count >= 10**9 else f"{count // 10**6}M"


def _size(model: torch.nn.Module) -> str:
    """Return the size of the backbone: adapters and heads do not make an 8B model a 9B one."""
    return parameter_count(getattr(model, "backbone", model))


def _similarities(model: Any) -> Compare:
    def compare(a: Sequence[Image.Image], b: Sequence[Image.Image], aspects: Sequence[Aspect]) -> NDArray[np.floating]:
        with torch.no_grad():
            found = model.similarity(list(a), list(b), list(aspects))
        return found.double().cpu().numpy()

    return compare


def _probabilities(choose: Any) -> Choose:
    def ask(triplets: Sequence[Sequence[Image.Image]], aspects: Sequence[Aspect]) -> NDArray[np.floating]:
        with torch.no_grad():
            found = choose([list(triplet) for triplet in triplets], list(aspects))
        return found.double().cpu().numpy()

    return ask


def _fingerprint(model: Any) -> str:
    """Return a short name for all that changes a comparing model's scores: weights, words, tokens, image settings."""
    backbone: Backbone = model.backbone
    state = (model if isinstance(model, torch.nn.Module) else backbone).state_dict()
    lora = backbone.lora
    facts = {
        "version": SCORES_VERSION,
        "weights": weights_digest(state.items()),
        "settings": getattr(model, "settings", {}),
        "lora_scale": None if lora is None else lora.alpha / lora.r,
        "dtype": str(backbone.dtype),
        "words": _words(model.kind, backbone),
        "preprocessing": asdict(backbone.preprocess),
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return f"qwen3-vl-{model.kind}:{digest[:32]}"


def _words(kind: str, backbone: Backbone) -> list[list[int]]:
    """Return the tokens that an aspect becomes, which depend on prompts and tokenizer."""
    chat, aspect = backbone.chat, Aspect("color palette")
    if kind == "mid":
        return [mid_fusion_tokens(chat, aspect, 1)]
    if kind == "early":
        return [early_fusion_tokens(chat, aspect, 1, 1)]
    if kind == "triplet":
        return [question_tokens(chat, triplet_head_prompt(aspect), [1, 1, 1])]
    asked = (zero_shot_triplet_prompt, two_afc_prompt, rating_prompt)
    return [question_tokens(chat, prompt(aspect), [1]) for prompt in asked]
