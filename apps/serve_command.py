"""The command ``tpips-serve``."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from apps.free_port import check_port_free
from indexer import IndexDirectory
from indexer.commands.data_root import DataRoots, given_data_root
from search.live.look import MAX_LOOKED_AT
from tpips_model.errors import TpipsError
from tpips_model.extras import install_extra
from tpips_model.terminal import run_command

__all__ = ["app", "main"]

KEY_VARIABLE = "TPIPS_API_KEY"
MIN_KEY_LENGTH = 16
# Longer than a client's own limit, so that a client never writes into a connection that is just being closed.
KEEP_ALIVE_SECONDS = 30
SHUTDOWN_SECONDS = 15
MEGABYTE = 1 << 20

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)


@app.command()
def serve(
    index: Annotated[Path, typer.Argument(help="The index directory.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8600,
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            help=f"A file whose first line is the key that clients must send; or set {KEY_VARIABLE}. Without either, "
            "whoever reaches the port may ask."
        ),
    ] = None,
    data_root: DataRoots = None,
    device: Annotated[
        str, typer.Option(help='Where exact scans run: cpu, cuda, such as "cuda:0,cuda:1", or auto.')
    ] = "cpu",
    max_upload_mb: Annotated[float, typer.Option(min=0.01, max=1024, help="Megabytes of one uploaded picture.")] = 20.0,
    threads: Annotated[int | None, typer.Option(min=1, help="Queries by key that run at once.")] = None,
    max_live: Annotated[
        int,
        typer.Option(
            min=0,
            max=MAX_LOOKED_AT,
            help="Pictures that a query by words that are not indexed may have looked at; 0 allows no such words.",
        ),
    ] = 256,
    preload: Annotated[
        bool, typer.Option("--preload", help="Load the model at the start, not at the first uploaded picture.")
    ] = False,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(help="A name by which the server may be asked, beside localhost; needed behind a proxy."),
    ] = None,
    cors_origin: Annotated[
        list[str] | None, typer.Option(help="A web site whose scripts may ask, such as https://example.org.")
    ] = None,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log every request.")] = False,
) -> None:
    """Answer queries to an index over HTTP; /openapi.json describes how to ask.

    For example: tpips-serve index --port 8600, and then
    curl -H 'Content-Type: application/json' -d '{"key": "a.jpg", "aspect": "brushwork"}' localhost:8600/similar
    """
    try:
        import uvicorn

        from apps.server import ServerSettings, make_application
        from apps.server.connection import Connection
    except ImportError as error:
        raise TpipsError(
            f"tpips-serve needs packages that are not installed ({error}); install them with: {install_extra('serve')}"
        ) from error
    key = _api_key(api_key_file)
    settings = ServerSettings(
        api_key=key,
        max_upload=int(max_upload_mb * MEGABYTE),
        max_held=max(ServerSettings.max_held, int(4 * max_upload_mb * MEGABYTE)),
        search_threads=threads or os.cpu_count() or 1,
        allowed_hosts=_allowed_hosts(host, allowed_host or []),
        cors_origins=tuple(cors_origin or ()),
        max_live=max_live,
        preload=preload,
    )
    application = make_application(
        IndexDirectory.open(index, data_root=given_data_root(data_root)), settings, device=device
    )
    if key is None and not _is_loopback(host):
        typer.echo(f"warning: no API key: whoever reaches {host}:{port} may search and see the pictures", err=True)
    check_port_free(host, port)
    uvicorn.run(
        application,
        host=host,
        port=port,
        access_log=access_log,
        server_header=False,
        proxy_headers=False,
        http=Connection,
        ws="none",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; a fault of the user's is one line on standard error and exit status 1."""
    run_command(lambda: app(args=arguments))


def _api_key(path: Path | None) -> str | None:
    """Return the key of a file, else of the environment; never of the command line, which others can see."""
    if path is None:
        given, where = os.environ.get(KEY_VARIABLE), f"the environment variable {KEY_VARIABLE}"
        if given is None:
            return None
    else:
        where = f"the file {path}"
        try:
            given = path.read_text(encoding="utf-8").partition("\n")[0]
        except (OSError, UnicodeDecodeError) as error:
            raise TpipsError(f"cannot read the API key from {where}: {error}") from error
    key = given.strip()
    if len(key) < MIN_KEY_LENGTH or not (key.isascii() and key.isprintable()) or " " in key:
        raise TpipsError(
            f"{where} holds no usable API key: at least {MIN_KEY_LENGTH} ASCII characters without blanks; make one "
            "with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    return key


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _allowed_hosts(host: str, named: Sequence[str]) -> tuple[str, ...]:
    """Return the names that requests may give; none where the server is open to other machines and none was named."""
    if not _is_loopback(host):
        return (*named, "localhost", "127.0.0.1", "[::1]") if named else ()
    return (*named, "localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host)


if __name__ == "__main__":
    main()
