"""The engine over HTTP."""

from apps.server.application import make_application
from apps.server.settings import ServerSettings

__all__ = ["ServerSettings", "make_application"]
