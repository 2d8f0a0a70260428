"""The joint codes that are held in memory: those of the sets of aspects asked for last, within a bound."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from search.joint_codes import DEFAULT_CODES_MEMORY, JointCodes
from search.stored_codes import StoredCodes

__all__ = ["JointCache"]


@dataclass
class _Slot:
    """One set of aspects in the cache; its lock lets one thread assemble while the others wait."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    joint: JointCodes | None = None


class JointCache:
    """Assembled codes by set of aspects; the sets used longest ago go when the memory bound is passed.

    Args:
        stored: The index's codes.
        memory: Bound in bytes; the set that is asked for is always held, however large.
    """

    def __init__(self, stored: StoredCodes, *, memory: int = DEFAULT_CODES_MEMORY) -> None:
        self._stored = stored
        self._memory = memory
        self._slots: OrderedDict[tuple[str, ...], _Slot] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def list_count(self) -> int:
        """How many inverted lists there are; 0 for none."""
        return self._stored.list_count

    def get(self, slugs: Sequence[str]) -> JointCodes:
        """Return the joint codes of a set of aspects, assembled once."""
        key = tuple(sorted(slugs))
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
        with slot.lock:
            if slot.joint is None:
                needed = JointCodes.bytes_of(self._stored.list_sizes, [self._stored.quantizer(s) for s in key])
                self._make_room(needed, keep=key)
                slot.joint = JointCodes(self._stored, key)
            return slot.joint

    @property
    def nbytes(self) -> int:
        """How many bytes are held."""
        with self._lock:
            return sum(slot.joint.nbytes for slot in self._slots.values() if slot.joint is not None)

    def _make_room(self, needed: int, *, keep: tuple[str, ...]) -> None:
        """Let go of sets, first those used longest ago, until ``needed`` bytes fit."""
        with self._lock:
            held = sum(slot.joint.nbytes for slot in self._slots.values() if slot.joint is not None)
            for key in [key for key, slot in self._slots.items() if key != keep and slot.joint is not None]:
                if held + needed <= self._memory:
                    break
                slot = self._slots.pop(key)
                held -= slot.joint.nbytes if slot.joint is not None else 0
