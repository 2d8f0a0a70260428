"""From a backbone's name to the backbone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from tpips_model.devices import chosen_device
from tpips_model.errors import ModelError
from tpips_model.qwen.backbone import Backbone
from tpips_model.qwen.chat import Chat
from tpips_model.qwen.model_files import find_model_files, read_json
from tpips_model.qwen.preprocessing import DEFAULT_MAX_PIXELS, DEFAULT_MIN_PIXELS, Preprocessor
from tpips_model.qwen.weight_headers import check_weight_headers

__all__ = ["ATTENTIONS", "chosen_dtype", "load_backbone", "read_preprocessor"]

ATTENTIONS = ("sdpa", "flash_attention_2")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load_backbone(
    name: str | os.PathLike[str],
    *,
    revision: str | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    attention: str = "sdpa",
    min_pixels: int | None = None,
    max_pixels: int | None = None,
    generative: bool = False,
    files_that_win: str | os.PathLike[str] | None = None,
) -> Backbone:
    """Load a Qwen3-VL or Qwen3-VL-Embedding model, frozen and in evaluation mode.

    Args:
        name: A directory, or an id on the Hugging Face hub.
        revision: Of the hub repository.
        device: By default a GPU if there is one, else the CPU.
        dtype: ``"float32"``, ``"bfloat16"``, ``"float16"`` or a torch type; by default bfloat16 on a GPU and float32
            on the CPU.
        attention: ``"sdpa"``: torch's scaled_dot_product_attention, which takes its own FlashAttention kernel where
            there is no mask (vision tower, shared prefix). ``"flash_attention_2"``: the flash-attn package for the
            vision tower, one call for pictures of all sizes; the language model needs masks and stays with SDPA.
        min_pixels: Smaller pictures are enlarged to this area; by default as the model's image settings say.
        max_pixels: Larger pictures are shrunk to this area; by default as the model's image settings say, but at most
            8,192 image tokens.
        generative: Load the language head, too, for answers in words.
        files_that_win: A directory whose tokenizer and image settings, where it has them, replace the backbone's.

    Raises:
        ModelError: There is no such model, it is no Qwen3-VL, or its weights are incomplete or of other shapes.
    """
    if attention not in ATTENTIONS:
        raise ModelError(f"unknown attention {attention!r}; choose one of {', '.join(ATTENTIONS)}")
    files = find_model_files(name, revision=revision)
    settings = read_json(files.directory / "config.json")
    if settings.get("model_type") != "qwen3_vl":
        raise ModelError(f"{files.name} is a {settings.get('model_type')!r} model; a 'qwen3_vl' backbone is needed")
    chosen = chosen_device(device)
    model = _load_weights(files.directory, settings, chosen_dtype(dtype, chosen), attention, generative=generative)
    inner, lm_head = (model.model, model.lm_head) if generative else (model, None)
    places = [Path(files_that_win)] if files_that_win is not None else []
    places.append(files.directory)
    preprocess = read_preprocessor(places, min_pixels=min_pixels, max_pixels=max_pixels)
    _check_patches(preprocess, inner.config.vision_config, places)
    backbone = Backbone(
        inner,
        chat=_load_chat(places, image_token_id=inner.config.image_token_id),
        preprocess=preprocess,
        name=files.name,
        revision=files.revision,
        lm_head=lm_head,
    )
    return backbone.to(chosen).eval().requires_grad_(False)


def chosen_dtype(dtype: str | torch.dtype | None, device: torch.device) -> torch.dtype:
    """Return the floating-point type asked for, or the device's own: bfloat16 on a GPU, else float32.

    Raises:
        ModelError: The name is unknown.
    """
    if dtype is None:
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype not in DTYPES:
        raise ModelError(f"unknown dtype {dtype!r}; choose one of {', '.join(DTYPES)}")
    return DTYPES[dtype]


def read_preprocessor(
    places: list[Path], *, min_pixels: int | None = None, max_pixels: int | None = None
) -> Preprocessor:
    """Read the image settings from the first directory that has them; explicit budgets win.

    Raises:
        ModelError: The settings are damaged, or the budgets cannot be met.
    """
    settings: dict[str, Any] = {}
    for place in places:
        if (place / "processor_config.json").is_file():
            settings = read_json(place / "processor_config.json").get("image_processor") or {}
        if not settings and (place / "preprocessor_config.json").is_file():
            settings = read_json(place / "preprocessor_config.json")
        if settings:
            break
    size = settings.get("size") or {}
    try:
        published = min(int(size.get("longest_edge", DEFAULT_MAX_PIXELS)), DEFAULT_MAX_PIXELS)
        return Preprocessor(
            min_pixels=int(size.get("shortest_edge", DEFAULT_MIN_PIXELS)) if min_pixels is None else min_pixels,
            max_pixels=published if max_pixels is None else max_pixels,
            mean=_three(settings.get("image_mean", 0.5)),
            std=_three(settings.get("image_std", 0.5)),
            patch_size=int(settings.get("patch_size", 16)),
            merge_size=int(settings.get("merge_size", 2)),
            frames=int(settings.get("temporal_patch_size", 2)),
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"the image settings beside {places[-1]} are damaged: {error}") from error


def _check_patches(preprocess: Preprocessor, vision: Any, places: list[Path]) -> None:
    cut = preprocess.patch_size, preprocess.merge_size, preprocess.frames
    expected = vision.patch_size, vision.spatial_merge_size, vision.temporal_patch_size
    if cut != expected:
        raise ModelError(
            f"the image settings beside {places[0]} cut pictures by patch size, merge size and frames {cut}, and the "
            f"backbone's vision tower reads {expected}; take both from the same place"
        )


def _three(value: Any) -> tuple[float, float, float]:
    red, green, blue = [float(value)] * 3 if isinstance(value, (int, float)) else [float(level) for level in value]
    return red, green, blue


def _load_chat(places: list[Path], *, image_token_id: int) -> Chat:
    from transformers import AutoTokenizer

    place = next((each for each in places if (each / "tokenizer.json").is_file()), places[-1])
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(place), local_files_only=True)
    except Exception as error:  # the library raises many kinds for missing and damaged files
        raise ModelError(f"cannot load the tokenizer in {place}: {error}") from error
    return Chat(tokenizer, image_token_id=image_token_id)


def _load_weights(
    directory: Path, settings: Mapping[str, Any], dtype: torch.dtype, attention: str, *, generative: bool
) -> Any:
    from transformers import Qwen3VLForConditionalGeneration, Qwen3VLModel

    kind: Any = Qwen3VLForConditionalGeneration if generative else Qwen3VLModel
    if not any(directory.glob("*.safetensors")):
        raise ModelError(f"{directory} holds no *.safetensors; the weights of a backbone are needed in that format")
    check_weight_headers(directory, settings)
    try:
        with quietly():
            model, report = kind.from_pretrained(
                str(directory),
                dtype=dtype,
                attn_implementation={"vision_config": attention, "text_config": "sdpa"},
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are reported, and named below
                use_safetensors=True,
                local_files_only=True,
            )
    except Exception as error:  # the library raises many kinds for missing and damaged files
        raise ModelError(f"cannot load the backbone in {directory}: {error}") from error
    unexpected = [key for key in report["unexpected_keys"] if not key.endswith("lm_head.weight")]
    faults = {"missing": report["missing_keys"], "unknown": unexpected, "mis-shaped": report["mismatched_keys"]}
    named = [f"{fault} {', '.join(sorted(map(str, keys))[:5])}" for fault, keys in faults.items() if keys]
    if named:
        raise ModelError(f"the weights in {directory} are not this model's: {'; '.join(named)}")
    return model


@contextmanager
def quietly() -> Iterator[None]:
    """Keep the transformers library from printing its progress bar and report, which errors here replace."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
