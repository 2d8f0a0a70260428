"""The models: an image and an aspect in, a unit vector out."""

from tpips_model.aspects import OVERALL, Aspect, AspectLike, early_fusion_prompt, late_fusion_prompt, unique_aspects
from tpips_model.embedder import Embedder
from tpips_model.errors import AspectError, ImageError, ModelError, TpipsError
from tpips_model.images import ImageLike, to_rgb
from tpips_model.loading import load_model

__all__ = [
    "OVERALL",
    "Aspect",
    "AspectError",
    "AspectLike",
    "Embedder",
    "ImageError",
    "ImageLike",
    "ModelError",
    "TpipsError",
    "early_fusion_prompt",
    "late_fusion_prompt",
    "load_model",
    "to_rgb",
    "unique_aspects",
]
