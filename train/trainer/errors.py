"""What goes wrong with a training run."""

from __future__ import annotations

from tpips_model.errors import TpipsError

__all__ = ["TrainingError"]


class TrainingError(TpipsError):
    """A training run that cannot start, go on, or be resumed; the message says what to do."""
