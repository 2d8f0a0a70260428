"""Writing judgements from any source as JSON lines with pictures beside them, or as our shards; whole or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from tpips_model.errors import ImageError
from tpips_model.images import IMAGE_SUFFIXES
from train.judgements.item_record import factor_records
from train.judgements.records import Judgement, JudgementDataError, JudgementSet, PictureSource
from train.judgements.shards import MEMBERS, SHARD_FORMAT
from train.judgements.triplet_lines import items, triplet_line
from train.judgements.whole_folder import whole_folder

__all__ = ["ITEMS_PER_SHARD", "export_judgements", "export_lines", "export_shards"]

# For pictures whose key is no file's name, or another picture's.
BY_DIGEST = "by-digest"
ITEMS_PER_SHARD = 1000
# A shard ends at so many bytes of pictures even before it has that many items.
_SHARD_BYTES = 1 << 30
_MAX_STEP = 200


def export_judgements(
    found: JudgementSet, out: Path, *, per_shard: int = ITEMS_PER_SHARD, on_item: Callable[[], object] | None = None
) -> Path:
    """Write a set where ``out`` says: ``FOLDER/NAME.jsonl`` gives JSON lines, any other path a folder of shards.

    Args:
        found: The set.
        out: The file, whose folder must be new or empty, or the folder itself.
        per_shard: Items a shard, at most.
        on_item: Called after every item.

    Returns:
        The folder that was written.

    Raises:
        JudgementDataError: The folder is not empty, a picture cannot be read, or the disk refuses.
    """
    try:
        if out.suffix == ".jsonl":
            export_lines(found, out, on_item=on_item)
            return out.parent
        export_shards(found, out, per_shard=per_shard, on_item=on_item)
        return out
    except ImageError as error:
        raise JudgementDataError(f"nothing is exported: {error}") from error
    except OSError as error:
        raise JudgementDataError(f"cannot write {out}: {error.strerror or error}; nothing is exported") from error


def export_lines(found: JudgementSet, out: Path, *, on_item: Callable[[], object] | None = None) -> None:
    """Write JSON lines, and beside them each picture once, as the file that it was and under its key."""
    with whole_folder(out.parent) as folder, open(folder / out.name, "w", encoding="utf-8") as lines:
        paths: dict[PictureSource, str] = {}
        taken = {out.name.casefold()}
        for held in items(found.judgements):
            for picture in held[0].pictures:
                if picture not in paths:
                    data = encoded(picture)
                    paths[picture] = _write_picture(folder, picture, data, taken)
            lines.write(json.dumps(triplet_line(held, paths), ensure_ascii=False) + "\n")
            if on_item:
                on_item()


def export_shards(
    found: JudgementSet, out: Path, *, per_shard: int = ITEMS_PER_SHARD, on_item: Callable[[], object] | None = None
) -> None:
    """Write shards ``shard-000000.tar`` and so on; the same set gives the same bytes."""
    with whole_folder(out) as folder:
        for number, shard in enumerate(_shards(found, per_shard)):
            with tarfile.open(folder / f"shard-{number:06d}.tar", "w") as archive:
                for name, data in shard:
                    info = tarfile.TarInfo(name)
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
                    if on_item and name.endswith(".json"):
                        on_item()


def encoded(picture: PictureSource) -> bytes:
    """Return a picture's file as it was, or as a PNG file where there is none.

    Raises:
        ImageError: It cannot be read.
    """
    original = getattr(picture, "encoded", None)
    if original is not None:
        data: bytes = original()
        return data
    stream = io.BytesIO()
    picture.load().save(stream, "PNG")
    return stream.getvalue()


def _shards(found: JudgementSet, per_shard: int) -> Iterator[Iterator[tuple[str, bytes]]]:
    """Give the members of each shard; one shard must be used up before the next."""
    numbered = enumerate(items(found.judgements))
    pending = next(numbered, None)

    def members() -> Iterator[tuple[str, bytes]]:
        nonlocal pending
        written = count = 0
        while pending is not None and count < per_shard and written < _SHARD_BYTES:
            for name, data in _sample(*pending):
                written += len(data)
                yield name, data
            count += 1
            pending = next(numbered, None)

    while pending is not None:
        yield members()


def _sample(number: int, held: Sequence[Judgement]) -> list[tuple[str, bytes]]:
    first = held[0]
    files = [encoded(picture) for picture in first.pictures]
    record: dict[str, Any] = {"format": SHARD_FORMAT, "id": first.item, "subset": first.subset, "kind": first.kind}
    record["pictures"] = [
        {"key": picture.key, "sha256": hashlib.sha256(data).hexdigest()}
        for picture, data in zip(first.pictures, files, strict=True)
    ]
    record["factors"] = factor_records(held)
    members = [(f"{number:09d}.json", json.dumps(record, ensure_ascii=False).encode())]
    for name, picture, data in zip(MEMBERS[first.kind][1], first.pictures, files, strict=True):
        members.append((f"{number:09d}.{name}{_suffix(picture.key)}", data))
    return members


def _write_picture(folder: Path, picture: PictureSource, data: bytes, taken: set[str]) -> str:
    """Write a picture under its key; under its digest where no file may be called so, or another picture is."""
    steps = picture.key.split("/")
    path = picture.key
    if path.casefold() in taken or steps[0] == BY_DIGEST or not all(_storable(step) for step in steps):
        path = f"{BY_DIGEST}/{hashlib.sha256(data).hexdigest()}{_suffix(picture.key)}"
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    taken.add(path.casefold())
    return path


def _storable(step: str) -> bool:
    """Whether a name can be a file's on common file systems."""
    return (
        step not in ("", ".", "..")
        and step.isprintable()
        and not set(step) & set('\\/:*?"<>|')
        and len(step.encode()) <= _MAX_STEP
    )


def _suffix(key: str) -> str:
    suffix = PurePosixPath(key).suffix.lower()
    return suffix if suffix in IMAGE_SUFFIXES else ".img"
