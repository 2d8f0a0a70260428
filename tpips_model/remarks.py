"""What a model has to say of an aspect's words before anybody trusts its scores."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Protocol, runtime_checkable

from tpips_model.aspects import Aspect, AspectLike
from tpips_model.embedder import Embedder

__all__ = ["Remarking", "remark_on", "remarks_on"]

# name -> "module:function" of text -> remark, which loads no weights.
BUNDLED_REMARKS = {"mini": "tpips_model.mini.unfamiliar_words:bundled_remark"}


@runtime_checkable
class Remarking(Protocol):
    """What an ``Embedder`` may have besides; one that has it not takes any words."""

    def remark_on(self, aspect: AspectLike) -> str | None:
        """Return one line to show beside what the model finds by an aspect, or ``None``."""
        ...


def remark_on(model: str | Embedder, aspect: AspectLike) -> str | None:
    """Return one line to show beside what a model finds by an aspect, or ``None`` if nothing is to be said.

    Args:
        model: An embedder, or a model's name, such as an index's; no weights are loaded for it.
        aspect: Any aspect.

    Raises:
        AspectError: The aspect is no words.
        ModelError: The vocabulary of a bundled model is missing or damaged.

    Examples:
        >>> remark_on("mini", "brushwork")
        >>> remark_on("mini", "Pinselführung")
        "mini does not know the word 'Pinselführung' (it reads English): what it finds by it is a guess"
    """
    aspect = Aspect.of(aspect)
    if isinstance(model, Remarking):
        return model.remark_on(aspect)
    named = BUNDLED_REMARKS.get(model if isinstance(model, str) else model.name)
    if named is None:
        return None
    module, function = named.split(":")
    remark: str | None = getattr(import_module(module), function)(aspect.text)
    return remark


def remarks_on(model: str | Embedder, aspects: Iterable[AspectLike]) -> list[str]:
    """Return the remarks on several aspects in their order, each once; arguments and errors as of ``remark_on``."""
    remarks = (remark_on(model, aspect) for aspect in aspects)
    return list(dict.fromkeys(remark for remark in remarks if remark is not None))
