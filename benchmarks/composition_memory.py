"""Resident memory of a way, measured in a process of its own.

The process first builds the same way over few items, which loads its libraries and starts its threads; what it takes
beyond that once the whole collection is built and a few queries are answered is the figure. Pages of the mapped float16
store are counted apart, by the mapping's file in /proc/self/smaps (Linux only).
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.composition_cases import asked_cases
from benchmarks.composition_data import CODES_FOLDER
from benchmarks.composition_entrants import FAMILIES
from benchmarks.composition_ways import Setting

__all__ = ["Resident", "resident"]

FEW_ITEMS = 2048
QUERIES = 3
K = 10


@dataclass(frozen=True)
class Resident:
    """Bytes in memory.

    Attributes:
        own: Everything but the mapped float16 store.
        store: Of the mapped float16 store, which the system may drop at any time.
    """

    own: int
    store: int


def resident(families: Sequence[str], setting: Setting) -> dict[str, Resident]:
    """Return what the ways of each family hold in memory for a setting."""
    few = replace(setting, files=replace(setting.files, items=FEW_ITEMS))
    few.files.make(len(setting.indexed), threads=setting.threads)
    # As many processes as threads, a new one for each family.
    with multiprocessing.get_context("spawn").Pool(setting.threads, maxtasksperchild=1) as pool:
        found = pool.starmap(_measured, [(family, few, setting) for family in families], chunksize=1)
    return dict(zip(families, found, strict=True))


def _measured(family: str, few: Setting, setting: Setting) -> Resident:
    home = setting.files.home.resolve()
    kept = [_asked(family, few)]  # alive, so that its memory is in both figures
    before = _now(home)
    kept.append(_asked(family, setting))
    after = _now(home)
    return Resident(after.own - before.own, after.store - before.store)


def _asked(family: str, setting: Setting) -> object:
    way = FAMILIES[family].builders[0](setting)
    for case in asked_cases(setting.files, len(setting.indexed), QUERIES)[:3]:
        for query in case.queries:
            way.top(query, K, None)
    return way


def _now(store: Path) -> Resident:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what is free must not count
    own = mapped = 0
    of_store = False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        first, *rest = line.split(maxsplit=5)
        if not first.endswith(":"):
            file = Path(rest[4]) if len(rest) == 5 else Path()
            of_store = file.is_relative_to(store) and not file.is_relative_to(store / CODES_FOLDER)
        elif first == "Rss:":
            size = int(rest[0]) * 1024
            mapped, own = (mapped + size, own) if of_store else (mapped, own + size)
    return Resident(own, mapped)
