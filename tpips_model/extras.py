"""What installs the packages that only some of the project needs."""

from __future__ import annotations

__all__ = ["install_extra"]


def install_extra(name: str) -> str:
    """Return the command that installs an extra, as an error says it.

    >>> install_extra("serve")
    "pip install 'tpips-retrieval[serve]', or in a clone: pip install '.[serve]'"
    """
    return f"pip install 'tpips-retrieval[{name}]', or in a clone: pip install '.[{name}]'"
