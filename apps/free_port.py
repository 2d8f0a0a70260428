"""Whether a port can be listened on, asked before a server starts."""

from __future__ import annotations

import socket

from tpips_model.errors import TpipsError

__all__ = ["check_port_free"]


def check_port_free(host: str, port: int) -> None:
    """Check that a server can listen on an address.

    Raises:
        TpipsError: Another program does, or there is no such address.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise TpipsError(
            f"cannot listen on {host}:{port} ({error.strerror or error}); give another port with --port"
        ) from error
