"""What ``tpips-index info`` tells about an index."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import dataclass

from indexer.directory import IndexDirectory
from indexer.manifest import vectors_file
from tpips_model.aspects import Aspect

__all__ = ["AspectSummary", "IndexSummary", "summarise"]

# What differs between two reasons of one kind: numbers, and what stands in quotation marks.
_PARTICULARS = re.compile(r"""b?'[^']*'|b?"[^"]*"|\b\d[\d,.]*""")


@dataclass(frozen=True)
class AspectSummary:
    """One aspect of an index: its bytes on disk, and whether it can be queried."""

    text: str
    slug: str
    bytes: int
    complete: bool


@dataclass(frozen=True)
class IndexSummary:
    """What an index holds.

    Attributes:
        path: The index directory.
        model: The model's name.
        fingerprint: The model's fingerprint.
        dim: D.
        recommended_overall_penalty: The model's.
        source: Kind and folder of the pictures.
        images: How many items.
        parts: How many parts.
        errors: How many ledger lines.
        errors_by_reason: How many ledger lines of each kind of reason, most frequent first.
        aspects: The aspects in the order first asked.
        complete_with: The command that would complete incomplete aspects, or ``None``.
        same_vectors: Aspects under which all of several pictures have one and the same vector, as happens when a
            model's preprocessing is broken; empty unless asked for.
    """

    path: str
    model: str
    fingerprint: str
    dim: int
    recommended_overall_penalty: float
    source: str
    images: int
    parts: int
    errors: int
    errors_by_reason: dict[str, int]
    aspects: tuple[AspectSummary, ...]
    complete_with: str | None
    same_vectors: tuple[str, ...]


def summarise(index: IndexDirectory, *, read_vectors: bool = False) -> IndexSummary:
    """Summarise an opened index.

    Args:
        index: The index.
        read_vectors: Also look for aspects under which all vectors are the same, which reads them all.
    """
    manifest = index.manifest
    complete = set(index.aspects)
    reasons = Counter(_PARTICULARS.sub("…", reason) for reason in index.errors()["reason"].to_pylist())
    return IndexSummary(
        path=str(index.path),
        model=manifest.model.name,
        fingerprint=manifest.model.fingerprint,
        dim=index.dim,
        recommended_overall_penalty=manifest.model.recommended_overall_penalty,
        source=f"{manifest.source.kind}:{index.data_root}",
        images=index.rows,
        parts=len(manifest.parts),
        errors=sum(part.errors for part in manifest.parts),
        errors_by_reason=dict(reasons.most_common()),
        aspects=tuple(
            AspectSummary(aspect.text, aspect.slug, _bytes(index, aspect), aspect in complete)
            for aspect in manifest.aspects
        ),
        complete_with=None
        if len(complete) == len(manifest.aspects)
        else f"tpips-index build --out {shlex.quote(str(index.path))}",
        same_vectors=tuple(aspect.text for aspect in index.aspects if read_vectors and _all_the_same(index, aspect)),
    )


def _all_the_same(index: IndexDirectory, aspect: Aspect) -> bool:
    blocks = [block for block in index.vectors(aspect) if len(block)]
    return index.rows > 1 and all(bool((block == blocks[0][0]).all()) for block in blocks)


def _bytes(index: IndexDirectory, aspect: Aspect) -> int:
    names = (vectors_file(aspect, part.id) for part in index.manifest.parts)
    files = {name: record for part in index.manifest.parts for name, record in part.files.items()}
    return sum(files[name].bytes for name in names if name in files)
