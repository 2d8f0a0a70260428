"""Who takes part in the composition benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.composition_codes import CodeScan
from benchmarks.composition_fields import FETCHED, FieldMerge, fields_of
from benchmarks.composition_lancedb import LanceFusion
from benchmarks.composition_milvus import MilvusHybrid
from benchmarks.composition_qdrant import QdrantFormula
from benchmarks.composition_ways import ExactScan, PlainNumpy, Setting, Way

__all__ = ["EXACT", "FAMILIES", "GROWTH_FAMILIES", "OURS", "PER_FIELD", "RIVAL_FAMILIES", "Family"]


@dataclass(frozen=True)
class Family:
    """Ways that differ in how they search but not in what they hold in memory.

    Attributes:
        builders: One for each way.
        every: Asked every such query: the slow and the coarse need fewer for a median.
        most_items: The largest collection it is built for.
    """

    builders: tuple[Callable[[Setting], Way], ...]
    every: int = 1
    most_items: int | None = None


def _merge(kind: str, fetched: int, complete: bool, setting: Setting) -> Way:
    return FieldMerge(fields_of(setting, kind), fetched, complete)


def _merges(kind: str, fetched: tuple[int, ...]) -> tuple[Callable[[Setting], Way], ...]:
    return tuple(partial(_merge, kind, count, complete) for complete in (False, True) for count in fetched)


EXACT = "exact scan"
OURS = "codes"
# What the bars are measured against.
PER_FIELD = "FAISS per field, k' = 1,000, missing = 0"
FAMILIES: dict[str, Family] = {
    "exact scan": Family((ExactScan,)),
    "codes": Family((CodeScan,)),
    "numpy float32": Family((PlainNumpy,), every=5),
    "FAISS": Family(_merges("FAISS", FETCHED), every=5),
    "FAISS IVF": Family(_merges("FAISS IVF", (1_000,)), every=5),
    "Milvus Lite": Family((MilvusHybrid,), every=10, most_items=100_000),
    "Qdrant local": Family((QdrantFormula,), every=10, most_items=100_000),
    "LanceDB": Family((LanceFusion,), every=10, most_items=100_000),
}
RIVAL_FAMILIES = ("FAISS IVF", "Milvus Lite", "Qdrant local", "LanceDB")
# Those that are also asked two aspects of two and of eight indexed.
GROWTH_FAMILIES = ("exact scan", "codes")
