"""A folder that comes into being whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tpips_model.durable_files import flush_to_disk
from train.judgements.records import JudgementDataError

__all__ = ["whole_folder"]


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Give a temporary folder beside ``out``, flushed and renamed to it when the block ends, removed if it fails.

    Args:
        out: A folder that does not exist, or is empty.

    Raises:
        JudgementDataError: Something is there already, or the folder cannot be written.
    """
    out = out.absolute()
    if out == Path.cwd() or out.is_symlink() or (out.exists() and not (out.is_dir() and not os.listdir(out))):
        raise JudgementDataError(f"{out} is there already; give a folder that is new or empty")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".tmp", dir=out.parent))
    except OSError as error:
        raise _unwritable(out, error) from error
    try:
        yield temporary
        try:
            os.chmod(temporary, 0o777 & ~_umask())
            _flush(temporary)
            os.replace(temporary, out)
            flush_to_disk(out.parent)
        except OSError as error:
            raise _unwritable(out, error) from error
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _flush(folder: Path) -> None:
    for path, _, names in os.walk(folder):
        for name in names:
            flush_to_disk(Path(path, name))
        flush_to_disk(Path(path))


def _umask() -> int:
    """The process's mask of rights; mkdtemp's folders are for the owner alone."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _unwritable(out: Path, error: OSError) -> JudgementDataError:
    return JudgementDataError(
        f"cannot write {out}: {error.strerror or error}; see to the disk's space and the folder's rights, or give "
        "another folder"
    )
