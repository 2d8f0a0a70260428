"""The one family of errors a user can cause and mend."""

__all__ = ["AspectError", "ImageError", "ModelError", "TpipsError"]


class TpipsError(Exception):
    """A user's input that cannot be used; the message says what was given, what was expected and what to do.

    The command-line tools print it as one line and exit with status 1. Anything else that escapes is a bug of ours.
    """


class AspectError(TpipsError, ValueError):
    """An aspect that is empty, holds control characters, or collides with another one."""


class ImageError(TpipsError, ValueError):
    """An image that cannot be turned into RGB pixels."""


class ModelError(TpipsError):
    """A model that is unknown, damaged, or not the one an index was made with."""
