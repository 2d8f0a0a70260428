"""The commands ``build``, ``codes`` and ``info`` of ``tpips-index``."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from indexer.build import build as build_index
from indexer.build_config import BuildConfig, BuildSummary
from indexer.clustering import MAX_LISTS
from indexer.codes import CODES_FROM_ROWS, make_codes, outgrown, remove_codes
from indexer.directory import IndexDirectory, IndexDirectoryError, read_manifest
from indexer.given_path import given_path
from indexer.index_summary import IndexSummary, codes_bytes, lists_bytes, summarise
from indexer.lists import LISTS_FROM_ROWS, lists_to_make, make_lists, remove_lists
from indexer.output_folder import output_folder
from indexer.sources.folder import DEFAULT_SHARD_SIZE
from tpips_model.aspects import Aspect
from tpips_model.terminal import INTERRUPTED, printable

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Index pictures once per aspect, and find them by it.")


@app.command()
def build(
    out: Annotated[Path, typer.Option(help="The index directory to make or to go on with.")],
    data: Annotated[
        str | None,
        typer.Option(
            help="Where the pictures are: folder:PATH, webdataset:PATTERN such as shards/{000..127}.tar, "
            "parquet:PATTERN, csv:FILE, hf:ID, wikiart[:PATH], openimages[:PATH][?split=NAME], demo, or a bare path "
            "or address. Without it, aspects are added to the pictures of an index.",
        ),
    ] = None,
    aspect: Annotated[
        list[str] | None, typer.Option(help="A sense of similarity in any words; may be given several times.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="mini, or the directory or hub id of a Qwen3-VL model; by default that of the index, or mini for a "
            "new one."
        ),
    ] = None,
    max_pixels: Annotated[
        int | None,
        typer.Option(min=1, help="Shrink larger pictures to this area for a Qwen3-VL model (32 x 32 are one token)."),
    ] = None,
    max_tokens_per_batch: Annotated[
        int | None, typer.Option(min=1, help="Bound on the tokens that go through a Qwen3-VL model at once.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="How many pictures are embedded at once.")] = 32,
    shard_size: Annotated[
        int, typer.Option(min=1, help="How many files of a folder, or rows of a table, become one part.")
    ] = DEFAULT_SHARD_SIZE,
    codes: Annotated[
        bool | None,
        typer.Option(
            help="Make codes for approximate search; by default from "
            f"{CODES_FROM_ROWS:,} images on, and where the index has some already."
        ),
    ] = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Index pictures under every aspect asked for, and under "overall".

    Running the same command again does only what is missing: pictures that are new, or aspects that were not there.
    """
    config = BuildConfig(
        out=out,
        data=data,
        aspects=tuple(aspect or ()),
        model=model,
        max_pixels=max_pixels,
        max_tokens_per_batch=max_tokens_per_batch,
        batch_size=batch_size,
        shard_size=shard_size,
        codes=codes,
        progress=progress,
    )
    with _interruptible():
        summary = build_index(config)
    for line in _build_lines(summary, out):
        typer.echo(line)


@app.command()
def codes(
    directory: Annotated[Path, typer.Argument(help="The index directory.")],
    aspect: Annotated[
        list[str] | None, typer.Option(help="An indexed aspect; may be given several times. By default all.")
    ] = None,
    lists: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=MAX_LISTS,
            help="Also sort the images into so many inverted lists, of which a search looks into the nearest only; 0 "
            f"takes them away. By default up to 4 times the square root of the images, from {LISTS_FROM_ROWS:,} on.",
        ),
    ] = None,
    retrain: Annotated[
        bool,
        typer.Option("--retrain", help="Fit the codes, and lists, anew to the images that are in the index now."),
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take the codes away, and the lists with the last.")] = False,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Make what a large index needs for approximate search: half a byte for every four dimensions of a vector.

    Neither the pictures nor the model are needed. Running the same command again does only what is missing.
    """
    if retrain and remove:
        raise typer.BadParameter("give --retrain or --remove, not both")
    if (lists is not None and remove) or (lists == 0 and retrain):
        raise typer.BadParameter(f"give --lists or {'--remove' if remove else '--retrain'}, not both")
    folder = given_path(directory, what="the index", kind=IndexDirectoryError)
    read_manifest(folder)  # so that no folder is made where there is no index
    with _interruptible(), output_folder(folder, checked=not remove and lists != 0) as index:
        assert index is not None
        if remove:
            removed = tuple(map(index.indexed_aspect, aspect)) if aspect else index.manifest.aspects
            index = remove_codes(index, removed)
            lines = [f"no codes any more under: {', '.join(one.text for one in removed)}"]
            if index.manifest.lists is not None and not index.manifest.quantizers:
                remove_lists(index)
                lines.append("no lists any more")
        elif lists == 0:
            remove_lists(index)
            lines = ["no lists any more"]
        else:
            asked = tuple(map(index.indexed_aspect, aspect)) if aspect else index.aspects
            index = make_codes(index, asked, retrain=retrain, progress=progress)
            anew = retrain and not aspect
            if count := lists_to_make(index.manifest, wanted=lists, anew=anew):
                index = make_lists(index, count, anew=anew, progress=progress)
            lines = [*_codes_lines(index, asked), *_lists_lines(index, lists)]
            where = shlex.quote(str(index.path))
            lines.append(
                f"search with them: tpips-index query {where} --term … --approximate, or in Python exact=False"
            )
    for line in lines:
        typer.echo(line)


@contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted; what is finished is kept, and the same command goes on from there", err=True)
        raise typer.Exit(INTERRUPTED) from None


@app.command()
def info(
    directory: Annotated[Path, typer.Argument(help="The index directory.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    verify: Annotated[
        bool, typer.Option(help="Also check every file's checksum and every vector, and look for a broken model.")
    ] = False,
    errors: Annotated[
        bool, typer.Option("--errors", help="Also list every picture that could not be indexed, with its reason.")
    ] = False,
) -> None:
    """Tell what an index holds: model, source, aspects, pictures, and what could not be indexed."""
    index = IndexDirectory.open(directory, verify=verify)
    summary = summarise(index, read_vectors=verify)
    lines = index.errors().to_pylist() if errors else []
    if as_json:
        record = dataclasses.asdict(summary) | ({"error_lines": lines} if errors else {})
        typer.echo(json.dumps(record, indent=1, ensure_ascii=False))
        return
    console = Console()
    for table in _info_tables(summary):
        console.print(table)
    for line in lines:
        console.print(Text(printable(f"{line['key']}: {line['reason']}")), soft_wrap=True)
    if summary.complete_with is not None:
        console.print(Text(f"An aspect is incomplete; to complete it: {summary.complete_with}"), soft_wrap=True)
    for text in summary.same_vectors:
        console.print(Text(f"All images have the same vector under {text!r}: the model that made them is broken"))


def _build_lines(summary: BuildSummary, out: Path) -> list[str]:
    lines = []
    if summary.images or summary.parts:
        rate = summary.images / summary.seconds if summary.seconds else 0.0
        lines.append(f"indexed {summary.images:,} images in {summary.seconds:.1f} s ({rate:.1f} images/s)")
    if summary.aspects_added:
        lines.append(f"added to the images there before: {', '.join(aspect.text for aspect in summary.aspects_added)}")
    if summary.aspects_coded:
        lines.append(f"made codes for approximate search: {', '.join(aspect.text for aspect in summary.aspects_coded)}")
    if not lines:
        lines.append("nothing was missing")
    if summary.errors:
        lines.append(
            f"{summary.errors:,} could not be indexed, or not wholly; which and why: tpips-index info --errors {out}"
        )
    if summary.changed or summary.vanished:
        lines.append(
            f"{summary.changed:,} indexed images have changed and {summary.vanished:,} have vanished since; the index "
            "keeps them as they were. Restore them, or build a new index with another --out"
        )
    lines.append(f"{out} holds {summary.total_images:,} images")
    return lines


def _codes_lines(index: IndexDirectory, aspects: Sequence[Aspect]) -> list[str]:
    lines = []
    for aspect in aspects:
        quantizer = index.quantizer(aspect)
        lines.append(f"{aspect.text}: {quantizer.code_bytes:,} bytes an image, {codes_bytes(index, aspect):,} in all")
        if outgrown(quantizer, index.rows):
            lines[-1] += f"; fitted to {quantizer.trained_on:,} of {index.rows:,} images (--retrain fits them to all)"
    return lines


def _lists_lines(index: IndexDirectory, asked: int | None) -> list[str]:
    count = index.list_count
    lines = []
    if asked is not None and count < asked:
        lines.append(f"there are only {index.rows:,} images, so {count:,} lists instead of {asked:,}")
    if count:
        mean = index.rows / count
        lines.append(f"{count:,} lists of {mean:,.0f} images in the mean, {lists_bytes(index):,} bytes in all")
    return lines


def _info_tables(summary: IndexSummary) -> list[Table]:
    facts = Table(show_header=False, title="Index", title_justify="left")
    for name, value in (
        ("directory", summary.path),
        ("model", f"{summary.model}, {summary.dim} dimensions"),
        ("fingerprint", summary.fingerprint),
        ("recommended overall penalty", f"{summary.recommended_overall_penalty:g}"),
        ("source", summary.source),
        ("images", f"{summary.images:,} in {summary.parts:,} part{'s' if summary.parts != 1 else ''}"),
        ("errors", f"{summary.errors:,}"),
        ("lists", f"{summary.lists:,}, {summary.lists_bytes:,} bytes" if summary.lists_bytes else "none"),
    ):
        facts.add_row(name, Text(printable(value), overflow="fold"))
    aspects = Table("aspect", "folder", "bytes", "state", "codes", title="Aspects", title_justify="left")
    for aspect in summary.aspects:
        state = "complete" if aspect.complete else "incomplete"
        codes = f"{aspect.codes_bytes:,} bytes" + ("" if aspect.coded else ", incomplete")
        aspects.add_row(
            Text(aspect.text), Text(aspect.slug), f"{aspect.bytes:,}", state, codes if aspect.codes_bytes else "none"
        )
    if not summary.errors:
        return [facts, aspects]
    errors = Table("count", "reason", "such as", title="Not indexed, or not wholly", title_justify="left")
    for reason, count in summary.errors_by_reason.items():
        examples = ", ".join(summary.error_examples[reason])
        errors.add_row(f"{count:,}", Text(printable(reason)), Text(printable(examples), overflow="fold"))
    return [facts, aspects, errors]
