"""Finding a host's addresses within a time: the system's own look-up cannot be interrupted."""

from __future__ import annotations

import queue
import socket
import threading
import time

__all__ = ["MOST_AT_ONCE", "host_addresses"]

# A resolver that hangs may hold a thread for minutes; no more of them than this are ever waited for.
MOST_AT_ONCE = 64
_free = threading.BoundedSemaphore(MOST_AT_ONCE)


def host_addresses(host: str, port: int, seconds: float) -> list[str]:
    """Return the addresses that a host's name has, in the system's order, each once.

    The look-up runs in a thread of its own, which is left behind when the time is over: its answer is then thrown away,
    and it counts among the ``MOST_AT_ONCE`` until it ends.

    Args:
        host: A name or an address.
        port: What is to be connected to.
        seconds: How long it may take, waiting for others' look-ups to end included.

    Raises:
        TimeoutError: The time is over.
        OSError: The name is not known, or the resolver cannot be asked.
        ValueError: No host has such a name.
    """
    end = time.monotonic() + seconds
    late = TimeoutError(f"the addresses of its host were not found within {seconds:.3g} seconds")
    if not _free.acquire(timeout=max(seconds, 0)):
        raise late
    answer: queue.SimpleQueue[list[str] | Exception] = queue.SimpleQueue()
    thread = threading.Thread(target=_look_up, args=(host, port, answer), name="name look-up", daemon=True)
    try:
        thread.start()
    except BaseException:
        _free.release()
        raise
    try:
        found = answer.get(timeout=max(end - time.monotonic(), 0))
    except queue.Empty:
        raise late from None
    if isinstance(found, Exception):
        raise found
    return found


def _look_up(host: str, port: int, answer: queue.SimpleQueue[list[str] | Exception]) -> None:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        answer.put(list(dict.fromkeys(str(one[4][0]) for one in found)))
    except Exception as error:  # whatever it is, it is raised where the addresses are waited for
        answer.put(error)
    finally:
        _free.release()
