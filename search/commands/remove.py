"""The command ``tpips-index remove``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from indexer.commands.interruption import interruptible
from indexer.directory import IndexDirectory, IndexDirectoryError, read_manifest
from indexer.given_path import given_path
from indexer.output_folder import output_folder
from indexer.pictures import picture_state
from indexer.removal import allow_again, remove_rows
from search.items import Items
from search.selection import Selections
from search.terms import QueryError
from tpips_model.counted import counted
from tpips_model.terminal import printable

__all__ = ["remove"]

_SHOWN_KEYS = 5
_MAX_KEYS_BYTES = 1 << 29


def remove(
    directory: Annotated[Path, typer.Argument(help="The index directory.")],
    key: Annotated[list[str] | None, typer.Option(help="The key of a picture; may be given several times.")] = None,
    keys_from: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of keys, one a line; - reads them from standard input.")
    ] = None,
    null: Annotated[
        bool, typer.Option("--null", "-0", help="The keys of --keys-from end with a null character, not with a line.")
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(metavar="FILTER", help="All pictures for which this is true, such as 'licence = \"unknown\"'."),
    ] = None,
    vanished: Annotated[bool, typer.Option("--vanished", help="All pictures whose file is gone.")] = False,
    changed: Annotated[
        bool, typer.Option("--changed", help="All pictures whose file has another size than when it was indexed.")
    ] = False,
    again: Annotated[
        bool,
        typer.Option("--again", help="Let the next build index them again, should it meet their files in a folder."),
    ] = False,
    even_all: Annotated[
        bool, typer.Option("--even-all", help="With --vanished: even if all pictures of a folder are gone.")
    ] = False,
    undo: Annotated[
        bool,
        typer.Option(
            "--undo", help="Let build --retry-failed index removed pictures again: those of --key, or else all of them."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be removed.")] = False,
) -> None:
    """Remove pictures from an index; their files stay where they are.

    No search finds them any more, and no build brings them back, unless --again says so. What the index stores of them
    goes with "tpips-index compact".
    """
    keys = [*(key or ()), *(_keys_of(keys_from, null=null) if keys_from is not None else ())]
    if undo:
        if where is not None or vanished or changed or again or dry_run:
            raise typer.BadParameter("--undo takes --key and --keys-from alone")
        _undo(directory, frozenset(keys) if keys or keys_from else None)
        return
    if not (keys or keys_from or where is not None or vanished or changed):
        raise typer.BadParameter("say what to remove: --key, --keys-from, --where, --vanished or --changed")
    folder = given_path(directory, what="the index", kind=IndexDirectoryError)
    read_manifest(folder)  # so that no folder is made where there is no index
    with interruptible(), output_folder(folder) as index:
        assert index is not None
        rows = _rows(index, keys, where=where, vanished=vanished, changed=changed, even_all=even_all)
        if not dry_run:
            index = remove_rows(index, rows, again=again)
        shown = index.items(["key"])["key"].take(rows[:_SHOWN_KEYS]).to_pylist()
    examples = f": {', '.join(map(printable, shown))}{', …' if len(rows) > len(shown) else ''}" if shown else ""
    typer.echo(f"{'would remove' if dry_run else 'removed'} {counted(len(rows), 'image')}{examples}")
    stored = index.rows - index.live_count
    if stored and not dry_run:
        typer.echo(
            f"{counted(stored, 'removed image')} {'is' if stored == 1 else 'are'} stored still; to be rid of them: "
            f"tpips-index compact {shlex.quote(str(folder))}"
        )
    typer.echo(f"{folder} holds {counted(index.live_count, 'image')}")


def _undo(directory: Path, keys: frozenset[str] | None) -> None:
    folder = given_path(directory, what="the index", kind=IndexDirectoryError)
    read_manifest(folder)
    with interruptible(), output_folder(folder) as index:
        assert index is not None
        _, count = allow_again(index, keys)
    typer.echo(
        f"{counted(count, 'removed image')} may be indexed again: tpips-index build --out {shlex.quote(str(folder))} "
        "--data … --retry-failed"
    )


def _keys_of(path: Path, *, null: bool) -> list[str]:
    shown = "standard input" if str(path) == "-" else str(path)
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(_MAX_KEYS_BYTES + 1)
        else:
            file = given_path(path, what="the file of keys", kind=QueryError)
            if file.exists() and not file.is_file():
                raise QueryError(f"the file of keys {file} is no regular file; give one, or - for standard input")
            with open(file, "rb") as stream:
                data = stream.read(_MAX_KEYS_BYTES + 1)
        if len(data) > _MAX_KEYS_BYTES:
            raise QueryError(f"{shown} holds more than {_MAX_KEYS_BYTES:,} bytes of keys; remove them in several goes")
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise QueryError(f"the file of keys {shown} cannot be read: {error}") from error
    lines = text.split("\0") if null else [line.removesuffix("\r") for line in text.split("\n")]
    return [line for line in lines if line]


def _rows(
    index: IndexDirectory,
    keys: Sequence[str],
    *,
    where: str | None,
    vanished: bool,
    changed: bool,
    even_all: bool,
) -> NDArray[np.int64]:
    """Return the rows to remove, int64, ascending."""
    items = Items(index)
    rows = [_row(items, key) for key in keys]
    if vanished or changed:
        state = picture_state(index)
        if vanished and state.away and not even_all:
            root = index.data_roots[state.away[0]]
            raise QueryError(
                f"all pictures of {root} are gone, as when a disk is away or the index was moved; nothing was removed. "
                f"Bring them back, or say where they are now: tpips-index moved {shlex.quote(str(index.path))} FOLDER; "
                "or if they are gone for good, add --even-all"
            )
        rows += [_row(items, key) for key in (state.vanished if vanished else ())]
        rows += [_row(items, key) for key in (state.changed if changed else ())]
    if where is not None:
        selected = Selections(items, index.live_rows()).of(where).rows
        rows += (np.arange(index.rows) if selected is None else selected).tolist()
    return np.unique(np.array(rows, np.int64))


def _row(items: Items, key: str) -> int:
    row = items.keys.row(key)
    if row is None:
        near = items.keys.near(key)
        hint = f"; near it: {', '.join(map(repr, near))}" if near else ""
        raise QueryError(f"no picture has the key {key!r}{hint}; nothing was removed")
    return row
