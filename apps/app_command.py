"""The ``tpips-app`` command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from indexer.commands.data_root import DataRoots, given_data_root
from tpips_model.errors import TpipsError
from tpips_model.extras import install_extra
from tpips_model.terminal import run_command

__all__ = ["main"]


app = typer.Typer(add_completion=False)


@app.command()
def run(
    index: Annotated[Path, typer.Argument(help="The index, as tpips-index build makes it.")],
    port: Annotated[int, typer.Option(help="Where the app listens.", min=1, max=65535)] = 8501,
    host: Annotated[
        str, typer.Option(help="The address it listens on; 0.0.0.0 lets other machines of the network in.")
    ] = "127.0.0.1",
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open a browser.")] = False,
    data_root: DataRoots = None,
    votes: Annotated[
        Path | None, typer.Option(help="Where the Annotate page keeps its votes; by default INDEX-votes.")
    ] = None,
    web: Annotated[
        bool | None,
        typer.Option(
            "--web/--no-web",
            help="Let users paste the address of a picture, which this machine then downloads; by default only where "
            "no other machine reaches the app.",
        ),
    ] = None,
) -> None:
    """Search an index by many senses of similarity, in the browser.

    For example: tpips-app demo/index
    """
    try:
        from apps.app_server import CONFIG, LOCAL_HOSTS, make_app, shared_resources
    except ImportError as error:
        raise TpipsError(f"the app needs {error.name}: {install_extra('app')}") from error
    from apps.app_settings import AppSettings
    from apps.free_port import check_port_free

    settings = AppSettings.of(index, given_data_root(data_root), votes, web=host in LOCAL_HOSTS if web is None else web)
    opened = shared_resources(settings)  # what is wrong with the index is said here, not in the browser
    if len(opened.searcher) == 0:
        raise TpipsError(f"the index {settings.index} holds no picture; index a folder that has some")
    check_port_free(host, port)
    os.environ.update(settings.to_environment())
    address = {"server.port": port, "server.address": host, "server.headless": no_browser}
    make_app(settings, host=host).run(config=CONFIG | address)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; a fault of the user's is one line on standard error and exit status 1."""
    run_command(lambda: app(args=arguments))


if __name__ == "__main__":
    main()
