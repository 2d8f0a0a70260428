"""What an index of imported vectors says of its model and its source, where nobody knows more."""

from __future__ import annotations

from tpips_model.errors import ModelError

__all__ = ["IMPORTED_KIND", "IMPORTED_MODEL", "loadable_model"]

IMPORTED_KIND = "imported"
# A name that no model can have.
IMPORTED_MODEL = "imported vectors"


def loadable_model(name: str) -> str:
    """Return the name of an index's model, by which it is loaded.

    Raises:
        ModelError: Its vectors were imported, and nobody said which model made them.
    """
    if name == IMPORTED_MODEL:
        raise ModelError(
            "the index holds imported vectors of a model that is not known, so pictures cannot be embedded to be "
            "compared with them; ask with the keys of its items, or import again with --model-name and --fingerprint"
        )
    return name
