"""What goes wrong with a training run."""

from __future__ import annotations

from tpips_model.errors import TpipsError

__all__ = ["DAMAGES", "TrainingError"]

# What reading a file of the wrong content raises, where its parts are taken for what they should be; JSON nested too
# deep is a RecursionError, which is a RuntimeError.
DAMAGES = (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, ArithmeticError, RuntimeError)


class TrainingError(TpipsError):
    """A training run that cannot start, go on, or be resumed; the message says what to do."""
