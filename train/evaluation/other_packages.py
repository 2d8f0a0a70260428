"""Metrics of other people's packages as judges, by the interface that each one documents.

- lpips 0.1: ``lpips.LPIPS(net=…)``, called with two RGB batches in [−1, 1] of one size, returns distances.
- dreamsim 0.2: ``dreamsim(pretrained=True, dreamsim_type=…, device=…)`` returns (model, preprocess); ``model.embed``
  takes what ``preprocess`` makes of a PIL image; a distance is one minus the cosine.
- open_clip 2: ``create_model_and_transforms(name, pretrained=tag)`` returns (model, training transform, transform);
  ``model.encode_image`` takes a batch of what the last one makes of PIL images.
- tpips 0.1: ``load_model(kind, model_path, device=…)``; ``embed(images, factor=…)`` of late fusion and
  ``distance(a, b, factor)`` of early and mid fusion, on lists of PIL images.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from tpips_model.aspects import Aspect
from tpips_model.devices import chosen_device
from tpips_model.errors import ModelError
from train.evaluation.judges import EmbeddingJudge, Judge, ModelRow, PairJudge
from train.evaluation.own_models import parameter_count

__all__ = ["load_dreamsim", "load_lpips", "load_open_clip", "load_tpips"]

LPIPS_NETS = ("alex", "vgg", "squeeze")
TPIPS_TYPES = {"embedding": "Late Fusion", "early_fusion": "Early Fusion", "activation_dist": "Mid-Fusion"}
# What the paper measured, with the sizes that Table 3 gives.
PAPER_LPIPS, PAPER_DREAMSIM = ModelRow("Classic", "LPIPS", "62M"), ModelRow("Classic", "DreamSim", "258M")


def load_lpips(name: str, net: str, device: str | None) -> Judge:
    """Load LPIPS. Pictures of a pair that differ in size are compared at the smaller one's size.

    Raises:
        ModelError: An unknown net, or no such device.
    """
    if net not in LPIPS_NETS:
        raise ModelError(f"unknown LPIPS net in {name!r}; give one of {', '.join(LPIPS_NETS)}")
    place = chosen_device(device)
    model = import_module("lpips").LPIPS(net=net).to(place).eval()

    def compare(a: Sequence[Image.Image], b: Sequence[Image.Image], aspects: Sequence[Aspect]) -> NDArray[np.floating]:
        distances = []
        for first, second in zip(a, b, strict=True):
            size = min(first.size, second.size, key=lambda size: (size[0] * size[1], size))
            pair = [_signed(image, size).to(place) for image in (first, second)]
            with torch.no_grad():
                distances.append(float(model(*pair)))
        return _for_every_aspect(-np.array(distances), aspects)

    row = PAPER_LPIPS if net == "alex" else ModelRow("Classic", size=parameter_count(model))
    return PairJudge(name, f"lpips-{_version('lpips')}:{net}", row, compare)


def load_dreamsim(name: str, kind: str, device: str | None) -> Judge:
    """Load DreamSim, ``kind`` being its ``dreamsim_type``.

    Raises:
        ModelError: An unknown kind, or no such device.
    """
    place = chosen_device(device)
    try:
        model, preprocess = import_module("dreamsim").dreamsim(pretrained=True, dreamsim_type=kind, device=str(place))
    except (KeyError, ValueError, AttributeError) as error:
        raise ModelError(
            f"dreamsim cannot make {kind!r} ({error}); give a dreamsim_type, such as 'ensemble'"
        ) from error

    def vectors(images: Sequence[Image.Image]) -> torch.Tensor:
        return torch.cat([model.embed(preprocess(image).to(place)) for image in images])

    row = PAPER_DREAMSIM if kind == "ensemble" else ModelRow("Classic", size=parameter_count(model))
    return _blind_embedding(name, f"dreamsim-{_version('dreamsim')}:{kind}", row, vectors)


def load_open_clip(name: str, model_and_tag: str, device: str | None) -> Judge:
    """Load an OpenCLIP image encoder: ``MODEL/TAG``, or ``hf-hub:OWNER/MODEL``.

    Raises:
        ModelError: No weights are named, the package cannot make them, or there is no such device.
    """
    package, place = import_module("open_clip"), chosen_device(device)
    architecture, _, tag = model_and_tag.partition("/")
    if model_and_tag.startswith("hf-hub:"):
        architecture, tag = model_and_tag, ""
    elif not tag:
        raise ModelError(
            f"{name!r} names no weights; give open_clip:MODEL/TAG, as open_clip.list_pretrained() has them"
        )
    try:
        model, _, preprocess = package.create_model_and_transforms(architecture, pretrained=tag or None)
    except (RuntimeError, ValueError) as error:
        raise ModelError(f"open_clip cannot make {model_and_tag!r}: {error}") from error
    model = model.to(place).eval()

    def vectors(images: Sequence[Image.Image]) -> torch.Tensor:
        return model.encode_image(torch.stack([preprocess(image) for image in images]).to(place))

    row = ModelRow("Late Fusion", size=parameter_count(model))
    return _blind_embedding(name, f"open_clip-{_version('open_clip_torch')}:{model_and_tag}", row, vectors)


def load_tpips(name: str, kind_and_path: str, device: str | None) -> Judge:
    """Load a model of the authors' package: ``KIND``, or ``KIND:PATH`` for a checkpoint that is not on the hub.

    Raises:
        ModelError: An unknown kind, no such directory, or no such device.
    """
    kind, _, path = kind_and_path.partition(":")
    if kind not in TPIPS_TYPES:
        raise ModelError(f"unknown kind {kind!r} in {name!r}; tpips knows {', '.join(TPIPS_TYPES)}")
    if path and not Path(path).is_dir():
        raise ModelError(f"{name!r}: there is no directory {path}")
    model = import_module("tpips").load_model(kind, path or None, device=str(chosen_device(device)))
    fingerprint = f"tpips-{_version('tpips')}:{kind}:{_checkpoint_state(path)}"
    row = ModelRow(TPIPS_TYPES[kind], "Ours", "8B")
    if kind == "embedding":
        return EmbeddingJudge(name, fingerprint, row, lambda images, aspects: _tpips_vectors(model, images, aspects))
    return PairJudge(name, fingerprint, row, lambda a, b, aspects: _tpips_similarities(model, a, b, aspects))


def _tpips_vectors(model: Any, images: Sequence[Image.Image], aspects: Sequence[Aspect]) -> NDArray[np.floating]:
    with torch.no_grad():
        rows = [_array(model.embed(list(images), factor=aspect.text)) for aspect in aspects]
    return np.stack(rows, axis=1)


def _tpips_similarities(
    model: Any, a: Sequence[Image.Image], b: Sequence[Image.Image], aspects: Sequence[Aspect]
) -> NDArray[np.floating]:
    with torch.no_grad():
        return np.stack([-_array(model.distance(list(a), list(b), aspect.text)).reshape(-1) for aspect in aspects])


def _blind_embedding(name: str, fingerprint: str, row: ModelRow, vectors: Any) -> EmbeddingJudge:
    """Return a judge to whose model every aspect is the same."""

    def embed(images: Sequence[Image.Image], aspects: Sequence[Aspect]) -> NDArray[np.floating]:
        with torch.no_grad():
            rows = _array(vectors(images))
        return np.repeat(rows[:, None], len(aspects), axis=1)

    return EmbeddingJudge(name, fingerprint, row, embed)


def _for_every_aspect(values: NDArray[np.floating], aspects: Sequence[Aspect]) -> NDArray[np.floating]:
    return np.repeat(values[None], len(aspects), axis=0)


def _signed(image: Image.Image, size: tuple[int, int]) -> torch.Tensor:
    """Return an image as float32 (1, 3, H, W) in [−1, 1]."""
    sized = image if image.size == size else image.resize(size, Image.Resampling.BICUBIC)
    pixels = torch.from_numpy(np.asarray(sized, dtype=np.float32))
    return (pixels / 127.5 - 1).permute(2, 0, 1)[None]


def _array(values: Any) -> NDArray[np.float64]:
    return torch.as_tensor(values).detach().cpu().double().numpy()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # a checkout on the path, without its metadata
        return "unknown"


def _checkpoint_state(path: str) -> str:
    """Return what tells a checkpoint's directory from another, or from itself after it was written anew."""
    files = sorted(Path(path).iterdir()) if path else []
    return ",".join(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files) or "hub"
