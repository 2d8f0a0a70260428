"""What an export tells of itself: the model, the aspects, and what its columns are called."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from indexer.records import ModelRecord
from tpips_model.aspects import Aspect
from tpips_model.errors import AspectError, TpipsError

__all__ = ["EXPORT_FILE", "LAYOUTS", "SCHEMA_KEY", "ExportError", "ExportRecord", "portable_model", "read_export_file"]

FORMAT = "tpips-export"
FORMAT_VERSION = 1
# A folder that was exported holds the record as this file; a parquet file holds it in its schema's metadata.
EXPORT_FILE = "export.json"
SCHEMA_KEY = b"tpips-export"
LAYOUTS = ("parquet", "npy", "laion")
_MAX_BYTES = 1 << 24


class ExportError(TpipsError):
    """An export that cannot be written or read; the message says why and what to do."""


@dataclass(frozen=True)
class ExportRecord:
    """What an export holds.

    Attributes:
        layout: One of ``LAYOUTS``.
        model: The model that made the vectors.
        vectors: Where each aspect's vectors are: a column of the parquet file, a file, or a folder.
        count: N, the number of items.
        dtype: The vectors' type, ``"float16"`` or ``"float32"``.
        metadata: What each metadata column of the export is called in the index.
    """

    layout: str
    model: ModelRecord
    vectors: Mapping[Aspect, str]
    count: int
    dtype: str
    metadata: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the record as text."""
        model = self.model
        record = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "layout": self.layout,
            "model": {
                "name": model.name,
                "fingerprint": model.fingerprint,
                "dim": model.dim,
                "prompt_template": model.prompt_template,
                "recommended_overall_penalty": model.recommended_overall_penalty,
            },
            "aspects": [{"text": one.text, "slug": one.slug, "vectors": where} for one, where in self.vectors.items()],
            "dtype": self.dtype,
            "count": self.count,
            "metadata": dict(self.metadata),
        }
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, *, shown: str) -> ExportRecord | None:
        """Read a record, trusting nothing in it; ``None`` if it is something else.

        Raises:
            ExportError: It is of a newer version, or damaged.
        """
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            return None
        if record.get("format_version") != FORMAT_VERSION:
            raise ExportError(
                f"{shown} is an export of version {record.get('format_version')!r:.20}, and this program reads version "
                f"{FORMAT_VERSION}; update tpips-retrieval"
            )
        try:
            return cls._parsed(record)
        except (AspectError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ExportError(f"{shown} is damaged ({error!s:.200}); export anew") from error

    @classmethod
    def _parsed(cls, record: dict[str, Any]) -> ExportRecord:
        model = record["model"]
        penalty = float(model["recommended_overall_penalty"])
        texts = (*(model[name] for name in ("name", "fingerprint", "prompt_template")), *record["metadata"].values())
        places = {Aspect(one["text"]): one["vectors"] for one in record["aspects"]}
        for text in (*texts, *places.values(), record["dtype"]):
            if not isinstance(text, str) or any("\ud800" <= char <= "\udfff" for char in text):
                raise ValueError(f"{text!r:.80} should be text")
        numbers = (model["dim"], record["count"])
        if not all(type(number) is int and number >= 0 for number in numbers) or not math.isfinite(penalty):
            raise ValueError("its numbers make no sense")
        if record["layout"] not in LAYOUTS or not places:
            raise ValueError("its layout is unknown, or it names no aspects")
        return cls(
            layout=record["layout"],
            model=ModelRecord(
                name=model["name"],
                fingerprint=model["fingerprint"],
                dim=model["dim"],
                prompt_template=model["prompt_template"],
                recommended_overall_penalty=penalty,
            ),
            vectors=places,
            count=record["count"],
            dtype=record["dtype"],
            metadata=dict(record["metadata"]),
        )


def read_export_file(folder: Path) -> ExportRecord | None:
    """Return the record of an exported folder, or ``None`` if the folder is something else.

    Raises:
        ExportError: The record is of a newer version, damaged, or cannot be read.
    """
    path = folder / EXPORT_FILE
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return None
        return ExportRecord.from_json(path.read_bytes(), shown=str(path))
    except OSError as error:
        raise ExportError(f"cannot read {path}: {error.strerror or error}; export anew") from error


def portable_model(name: str) -> str:
    """Return a model's name without the folders above it, which are nobody else's concern.

    >>> portable_model("/home/ann/models/late?dtype=float32"), portable_model("owner/name"), portable_model("mini")
    ('late?dtype=float32', 'owner/name', 'mini')
    """
    place, mark, options = name.partition("?")
    return f"{PurePath(place).name}{mark}{options}" if PurePath(place).is_absolute() else name
