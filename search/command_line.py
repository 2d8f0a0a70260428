"""The command ``tpips-index``: build and info from the indexer, and query."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from indexer.command_line import app
from indexer.commands.data_root import DataRoots, given_data_root
from search.commands.duplicates import duplicates
from search.commands.push import push
from search.commands.remove import remove
from search.hits import Hits
from search.live.look import MAX_LOOKED_AT, LiveLook
from search.page import write_page
from search.searcher import Searcher
from search.term_text import parse_term_text
from tpips_model.progress_bar import ProgressBar
from tpips_model.remarks import remarks_on
from tpips_model.terminal import printable, run_command

__all__ = ["app", "main"]

app.command()(remove)
app.command()(duplicates)
app.command()(push)


@app.command()
def query(
    directory: Annotated[
        str, typer.Argument(metavar="INDEX", help="The index directory, or milvus://HOST:PORT/COLLECTION.")
    ],
    term: Annotated[
        list[str],
        typer.Option(
            metavar="IMAGE:ASPECT[:WEIGHT]",
            help="An image (a file, or the key of an indexed picture), the aspect to compare by, and how much it "
            "counts (1 by default, negative for unlike). May be given several times.",
        ),
    ],
    penalty: Annotated[
        float,
        typer.Option(
            help="Overall penalty: how much overall similarity is taken off, so that the hits differ otherwise."
        ),
    ] = 0.0,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="How many hits.")] = 10,
    offset: Annotated[int, typer.Option(min=0, help="How many of the best to pass over; for the second page.")] = 0,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="FILTER",
            help="Choose only from the pictures for which this is true, such as 'style = \"Cubism\" and year >= 1900'. "
            'Knows =, !=, <, <=, >, >=, in [..], like "a%", contains "text", is null, and, or, not and parentheses.',
        ),
    ] = None,
    min_score: Annotated[float | None, typer.Option(help="Leave out hits of a lower score.")] = None,
    dedupe: Annotated[
        float | None,
        typer.Option(
            metavar="COSINE",
            help="Show one of several pictures that are overall at least this similar, for example 0.98.",
        ),
    ] = None,
    exact: Annotated[
        bool | None,
        typer.Option(
            "--exact/--approximate",
            help="Scan every vector, or go by the index's codes, which is faster. By default the size decides.",
            show_default=False,
        ),
    ] = None,
    nprobe: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="LISTS",
            help="How many of the index's inverted lists an approximate search looks into. By default all, and a "
            "quarter from ten million pictures on.",
            show_default=False,
        ),
    ] = None,
    live: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_LOOKED_AT,
            metavar="PICTURES",
            help="Allow aspects that are not indexed, in any words: so many of the likeliest pictures are looked at "
            "under them for this query, 64 for example.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(help='Where exact scans run: cpu, cuda, such as "cuda:0,cuda:1", or auto.')
    ] = "cpu",
    html: Annotated[Path | None, typer.Option(help="Also write a page with the pictures to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    include_queries: Annotated[
        bool,
        typer.Option(
            "--include-queries",
            help="Keep the pictures asked with, and copies of them (the same bytes or vectors), among the hits.",
        ),
    ] = False,
    data_root: DataRoots = None,
) -> None:
    """Find pictures by one sense of similarity, or by several at once.

    For example: tpips-index query index --term "a.jpg:color palette" --term b.jpg:brushwork:0.7
    """
    searcher = Searcher.open(directory, data_root=given_data_root(data_root), device=device)
    terms = [parse_term_text(text, searcher) for text in term]
    with _looking(live) as look:
        hits = searcher.query(
            terms,
            k=k,
            overall_penalty=penalty,
            exclude_queries=not include_queries,
            where=where,
            min_score=min_score,
            offset=offset,
            dedupe=dedupe,
            exact=exact,
            nprobe=nprobe,
            live=look,
        )
    for remark in remarks_on(searcher.index.manifest.model.name, [asked.aspect for asked in hits.terms]):
        typer.echo(f"note: {printable(remark)}", err=True)
    if html is not None:
        write_page(hits, html)
    if as_json:
        typer.echo(hits.to_json(indent=1))
    else:
        Console().print(_table(hits))
    if html is not None:
        # Beside JSON, standard output stays JSON.
        typer.echo(f"wrote {html} with {len(hits)} {'picture' if len(hits) == 1 else 'pictures'}", err=as_json)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; a fault of the user's is one line on standard error and exit status 1."""
    run_command(lambda: app(args=arguments))


@contextlib.contextmanager
def _looking(live: int | None) -> Iterator[LiveLook | None]:
    """Give the leave to look at pictures, with a bar that shows how many have been."""
    if live is None:
        yield None
        return
    with ProgressBar(total=live, desc="looking", unit=" pictures", leave=False) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield LiveLook(live, show)


def _table(hits: Hits) -> Table:
    table = Table("#", "key", title=Text(_title(hits)), title_justify="left")
    table.add_column("score", justify="right")
    for asked in hits.terms:
        table.add_column(Text(f"{printable(asked.aspect.text)}\n× {asked.weight:g}"), justify="right")
    if hits.dedupe is not None:
        table.add_column("alike", justify="right")
    for hit in hits:
        shares = [f"{share:+.4f}" for share in hit.contributions]
        alike = [] if hits.dedupe is None else [f"+{len(hit.duplicates)}" if hit.duplicates else ""]
        table.add_row(str(hit.rank), Text(printable(hit.key), overflow="fold"), f"{hit.score:.4f}", *shares, *alike)
    return table


def _title(hits: Hits) -> str:
    best = f"best {len(hits)}"
    if hits.offset:
        best = f"{hits[0].rank:,} to {hits[-1].rank:,}" if hits else "no further hits"
    facts = [f"{best} of {hits.selected:,}"]
    if hits.where is not None:
        facts[0] += f" (of {hits.total:,}) where {printable(hits.where)}"
    if hits.overall_penalty:
        facts.append(f"overall penalty {hits.overall_penalty:g}")
    if hits.min_score is not None:
        facts.append(f"score at least {hits.min_score:g}")
    if hits.live is not None:
        words = printable(" and ".join(hits.live.aspects))
        which = "all there are" if hits.exact else f"the likeliest of {hits.live.of:,}"
        facts.append(f"{which}, looked at by {words} just now")
        if hits.live.unreadable:
            facts.append(f"{hits.live.unreadable:,} more cannot be read")
    elif not hits.exact:
        lists = "" if hits.probed is None else f", {hits.probed:,} lists"
        facts.append(f"approximate ({hits.rescored:,} scored exactly{lists})")
    return ", ".join(facts)


if __name__ == "__main__":
    main()
