"""What ``tpips-index info`` tells about an index."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from indexer.directory import IndexDirectory
from indexer.file_names import codes_file, lists_file, quantizer_file, vectors_file
from indexer.ledger_kinds import LedgerKind, ledger_kind
from indexer.verifying.vector_check import check_vectors
from indexer.verifying.vectors import aspects_of_one_vector
from tpips_model.aspects import Aspect

__all__ = ["AspectSummary", "IndexSummary", "codes_bytes", "lists_bytes", "summarise"]

SHOWN_KEYS = 3

# What differs between two reasons of one kind: places, numbers, and what stands in quotation marks.
_PARTICULARS = re.compile(
    r"""^.*(?=\ has\ the\ key\ of\ an\ earlier\ picture|\ is\ a\ picture\ of\ an\ earlier\ index)
    |\(.*\)(?=,\ which\ is\ kept)|b?'[^']*'|b?"[^"]*"|\b\d[\d,.]*""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class AspectSummary:
    """One aspect of an index.

    Attributes:
        text: Its words.
        slug: Its folder.
        bytes: What its vectors take on disk.
        complete: Whether it can be queried.
        codes_bytes: What its codes take on disk.
        coded: Whether it can be searched approximately.
    """

    text: str
    slug: str
    bytes: int
    complete: bool
    codes_bytes: int
    coded: bool


@dataclass(frozen=True)
class IndexSummary:
    """What an index holds.

    Attributes:
        path: The index directory.
        model: The model's name.
        fingerprint: The model's fingerprint.
        dim: D.
        recommended_overall_penalty: The model's.
        source: Kind and folder of the pictures; of several sources, separated by commas.
        images: How many items, removed ones left out.
        removed: How many items are removed and stored still, until ``compact`` drops them.
        parts: How many parts.
        errors: How many ledger lines are about pictures that could not be indexed, or not wholly.
        errors_by_reason: How many of them have each kind of reason, most frequent first.
        error_examples: The first keys of each kind of reason; ``info --errors`` lists all.
        repeats: How many ledger lines are about pictures that were left out since they were there already.
        repeats_by_reason: As of errors.
        repeat_examples: As of errors.
        removed_lines: How many ledger lines are about removed pictures.
        aspects: The aspects in the order first asked.
        complete_with: The command that would complete incomplete aspects, or ``None``.
        lists: How many inverted lists there are; 0 if none, or if they are incomplete.
        lists_bytes: What they take on disk.
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
    removed: int
    parts: int
    errors: int
    errors_by_reason: dict[str, int]
    error_examples: dict[str, list[str]]
    repeats: int
    repeats_by_reason: dict[str, int]
    repeat_examples: dict[str, list[str]]
    removed_lines: int
    aspects: tuple[AspectSummary, ...]
    complete_with: str | None
    lists: int
    lists_bytes: int
    same_vectors: tuple[str, ...]


def summarise(index: IndexDirectory, *, read_vectors: bool = False) -> IndexSummary:
    """Summarise an opened index.

    Args:
        index: The index.
        read_vectors: Also check items, vectors, codes and lists, as ``tpips-index verify`` does, and look for aspects
            under which all vectors are the same.

    Raises:
        IndexDirectoryError: A part cannot be read, or something in it is damaged.
    """
    manifest = index.manifest
    complete = set(index.aspects)
    ledger = _ledger(index)
    errors, repeats = ledger["error"], ledger["repeat"]
    if read_vectors:
        check_vectors(index)
    return IndexSummary(
        path=str(index.path),
        model=manifest.model.name,
        fingerprint=manifest.model.fingerprint,
        dim=index.dim,
        recommended_overall_penalty=manifest.model.recommended_overall_penalty,
        source=", ".join(
            f"{source.kind}:{root}" for source, root in zip(manifest.sources, index.data_roots, strict=True)
        ),
        images=index.live_count,
        removed=index.rows - index.live_count,
        parts=len(manifest.parts),
        errors=_count(errors),
        errors_by_reason={reason: len(keys) for reason, keys in errors.items()},
        error_examples={reason: keys[:SHOWN_KEYS] for reason, keys in errors.items()},
        repeats=_count(repeats),
        repeats_by_reason={reason: len(keys) for reason, keys in repeats.items()},
        repeat_examples={reason: keys[:SHOWN_KEYS] for reason, keys in repeats.items()},
        removed_lines=_count(ledger["removed"]),
        aspects=tuple(
            AspectSummary(
                text=aspect.text,
                slug=aspect.slug,
                bytes=_bytes(index, [vectors_file(aspect, part.id) for part in manifest.parts]),
                complete=aspect in complete,
                codes_bytes=codes_bytes(index, aspect),
                coded=aspect in index.coded_aspects,
            )
            for aspect in manifest.aspects
        ),
        complete_with=None
        if len(complete) == len(manifest.aspects)
        else f"tpips-index build --out {shlex.quote(str(index.path))}",
        lists=manifest.list_count,
        lists_bytes=lists_bytes(index),
        same_vectors=tuple(aspect.text for aspect in aspects_of_one_vector(index)) if read_vectors else (),
    )


def _ledger(index: IndexDirectory) -> dict[LedgerKind, dict[str, list[str]]]:
    """Return the keys of the ledger's lines by what they are about and by kind of reason, most frequent first."""
    found: dict[LedgerKind, dict[str, list[str]]] = {"error": {}, "repeat": {}, "removed": {}}
    for line in index.errors().to_pylist():
        reason = line["reason"]
        found[ledger_kind(reason)].setdefault(_PARTICULARS.sub("…", reason), []).append(line["key"])
    return {kind: dict(sorted(reasons.items(), key=lambda entry: -len(entry[1]))) for kind, reasons in found.items()}


def _count(reasons: dict[str, list[str]]) -> int:
    return sum(map(len, reasons.values()))


def codes_bytes(index: IndexDirectory, aspect: Aspect) -> int:
    """Return what an aspect's codes take on disk, its quantizer included."""
    quantizer = index.manifest.quantizers.get(quantizer_file(aspect))
    codes = _bytes(index, [codes_file(aspect, part.id) for part in index.manifest.parts])
    return codes + (quantizer.bytes if quantizer is not None else 0)


def lists_bytes(index: IndexDirectory) -> int:
    """Return what the inverted lists take on disk, the clustering included."""
    lists = index.manifest.lists
    numbers = _bytes(index, [lists_file(part.id) for part in index.manifest.parts])
    return numbers + (lists.clustering.bytes if lists is not None else 0)


def _bytes(index: IndexDirectory, names: Sequence[str]) -> int:
    files = {name: record for part in index.manifest.parts for name, record in part.files.items()}
    return sum(files[name].bytes for name in names if name in files)
