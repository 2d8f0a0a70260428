"""Low-rank adapters (LoRA) on the language model, through the peft library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

from tpips_model.errors import ModelError

if TYPE_CHECKING:
    from tpips_model.qwen.backbone import Backbone

__all__ = ["LANGUAGE_LINEARS", "LoraSettings", "attach_lora", "canonical_name", "merge_lora", "trained_tensors"]

LANGUAGE_LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


MAX_ALPHA = 1_000_000


@dataclass(frozen=True)
class LoraSettings:
    """What the adapters are like.

    Args:
        r: Their rank.
        alpha: Their weight is alpha / r; the paper takes 2 · r (Appendix C.1).
        dropout: On their input, in training.
        targets: Which linear maps get one: last names, such as ``"q_proj"``, in the language model, or whole dotted
            names in the backbone.

    Raises:
        ModelError: A value that makes no adapter.
    """

    r: int = 16
    alpha: int = 32
    dropout: float = 0.05
    targets: tuple[str, ...] = LANGUAGE_LINEARS

    def __post_init__(self) -> None:
        named = isinstance(self.targets, (list, tuple)) and all(isinstance(target, str) for target in self.targets)
        numbers = isinstance(self.r, int) and all(
            isinstance(value, (int, float)) and not isinstance(value, bool)
            for value in (self.r, self.alpha, self.dropout)
        )
        if (
            not (named and self.targets and numbers)
            or not (self.r >= 1 and 0 < self.alpha <= MAX_ALPHA and 0 <= self.dropout < 1)  # false for NaN, too
        ):
            raise ModelError(
                f"{self!s:.300} makes no adapter: give r ≥ 1, 0 < alpha ≤ {MAX_ALPHA:,}, 0 ≤ dropout < 1, and the "
                "names of linear maps"
            )
        object.__setattr__(self, "targets", tuple(self.targets))


def attach_lora(backbone: Backbone, settings: LoraSettings) -> None:
    """Put fresh adapters on a backbone, in place; they change nothing yet (B = 0), and they alone are trainable.

    They are in the backbone's floating-point type, and ``backbone.lora`` says what they are like.

    Raises:
        ModelError: A target names no linear map of the backbone.
    """
    from peft import LoraConfig, inject_adapter_in_model

    linears = [name for name, module in backbone.named_modules() if isinstance(module, nn.Linear)]
    named = {
        target: [
            name
            for name in linears
            if name == target or (name.startswith("language_model.") and name.rsplit(".", 1)[-1] == target)
        ]
        for target in settings.targets
    }
    unknown = [target for target, names in named.items() if not names]
    if unknown:
        raise ModelError(
            f"the backbone has no linear map {', '.join(unknown)}; choose from {', '.join(LANGUAGE_LINEARS)}"
        )
    config = LoraConfig(
        r=settings.r,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=sorted({name for names in named.values() for name in names}),
    )
    was_training = backbone.training
    inject_adapter_in_model(config, backbone)
    backbone.train(was_training)
    backbone.lora = settings


def merge_lora(backbone: Backbone) -> None:
    """Add the adapters into the weights and remove them, in place: faster, equal up to rounding, final."""
    from peft.tuners.lora import LoraLayer

    adapted = [(name, module) for name, module in backbone.named_modules() if isinstance(module, LoraLayer)]
    for name, module in adapted:
        module.merge(safe_merge=True)
        parent, _, last = name.rpartition(".")
        setattr(backbone.get_submodule(parent), last, module.get_base_layer())


def canonical_name(name: str) -> str:
    """Return a tensor's name without what the adapter library puts into it.

    >>> canonical_name("backbone.layers.0.q_proj.base_layer.weight")
    'backbone.layers.0.q_proj.weight'
    >>> canonical_name("backbone.layers.0.q_proj.lora_A.default.weight")
    'backbone.layers.0.q_proj.lora_A.weight'
    """
    return (
        name.replace(".base_layer.", ".")
        .replace(".lora_A.default.", ".lora_A.")
        .replace(".lora_B.default.", ".lora_B.")
    )


def trained_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the adapters and heads of a model by canonical name: all that is not the backbone's own."""
    return {
        canonical_name(name): tensor
        for name, tensor in model.state_dict().items()
        if not name.startswith("backbone.") or ".lora_" in name
    }
