"""The first pictures of the Compose page inside the very page that a browser asks for.

Streamlit's own scripts take browsers about a second to run before anything can be shown. Until then the pictures stand
in its place, and load meanwhile; the wall of pictures takes them away when it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import anyio
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apps.page_style import lead_html, picture_html
from apps.picture_items import hit_items, record_items
from apps.query_state import QueryState, state_from_params
from apps.resources import Resources
from apps.screens.compose import LEAD, SAMPLE, TITLE
from apps.screens.compose_answer import Question, ask
from tpips_model.errors import TpipsError

__all__ = ["FirstPictures", "first_html"]

# A page that waits longer for its pictures than this comes without them.
SECONDS = 0.25
MAX_FIELDS = 1000
# What the browser has would be Streamlit's page as it is; its length changes, too.
_CONDITIONAL = (b"if-none-match", b"if-modified-since", b"range", b"accept-encoding")
_ASSETS = Path(__file__).with_name("assets")
_GO = "<script>setTimeout(() => document.getElementById('tpips-first')?.remove(), 8000)</script>"


class FirstPictures:
    """Middleware that puts pictures into the Compose page.

    Args:
        app: What answers.
        resources: Gives what all sessions share.
    """

    def __init__(self, app: ASGIApp, resources: Callable[[], Resources]) -> None:
        self._app = app
        self._resources = resources

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"] != "/":
            await self._app(scope, receive, send)
            return
        addition = b""
        with anyio.move_on_after(SECONDS):
            addition = await anyio.to_thread.run_sync(self._addition, scope, abandon_on_cancel=True)
        if not addition:
            await self._app(scope, receive, send)
            return
        headers = [(name, value) for name, value in scope["headers"] if name not in _CONDITIONAL]
        start: Message = {}
        body = bytearray()

        async def keep(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            body.extend(message.get("body", b""))
            if message.get("more_body"):
                return
            whole = bytes(body).replace(b"</body>", addition + b"</body>", 1)
            answer = MutableHeaders(raw=start["headers"])
            answer["content-length"] = str(len(whole))
            answer["cache-control"] = "no-store"
            for name in ("etag", "last-modified", "accept-ranges"):
                del answer[name]
            await send(start)
            await send({"type": "http.response.body", "body": whole})

        await self._app({**scope, "headers": headers}, receive, keep)

    def _addition(self, scope: Scope) -> bytes:
        try:
            params = parse_qs(
                scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_FIELDS
            )
            return first_html(self._resources(), params).encode("utf-8", "replace")
        except (TpipsError, ValueError):  # ValueError: more fields; the page itself will say what is wrong
            return b""


def first_html(resources: Resources, params: Mapping[str, Sequence[str]]) -> str:
    """Return the pictures that the Compose page will show for a link, or nothing if there are none.

    Args:
        resources: What all sessions share.
        params: The link's parameters.

    Raises:
        TpipsError: The query cannot be answered.
    """
    state, _ = state_from_params(params)
    if not state.rows:
        sample = record_items(resources, resources.view.sample_rows(SAMPLE))
        return _whole(f"<h1>{escape(TITLE)}</h1>{lead_html(LEAD)}", "", sample, 150)
    question = Question.of(state, resources)
    # A picture of one's own may take the model longer than the page, as do words that are not indexed.
    if not question.terms or question.live or any(row.picture.kind != "key" for row in state.active):
        return ""
    return _whole("", _cards(resources, state), hit_items(ask(resources, question)), 190)


def _whole(head: str, cards: str, items: Sequence[Mapping[str, Any]], height: int) -> str:
    if not items:
        return ""
    tiles = "".join(_tile(item) for item in items)
    style = "".join(_asset(name) for name in ("pictures.css", "first.css"))
    band = f'<div class="cards">{cards}</div>'
    return (
        '<div id="tpips-first" aria-hidden="true"><template shadowrootmode="open">'
        f'<style>{style}</style><div class="first">{head}{band}<div class="pictures" style="--height:{height}px">'
        f'<ol class="wall">{tiles}</ol></div></div></template></div>{_GO}'
    )


def _cards(resources: Resources, state: QueryState) -> str:
    pictures = ((picture_html(resources.address(row.picture, 360), ""), escape(row.aspect)) for row in state.rows)
    return "".join(f'<div class="card"><div class="picture">{html}</div>{aspect}</div>' for html, aspect in pictures)


def _tile(item: Mapping[str, Any]) -> str:
    # As pictures.js draws it.
    ratio = min(max(item["width"] / max(item["height"], 1), 0.45), 2.6)
    rank = f'<span class="rank">{item["rank"]}</span>' if "rank" in item else ""
    source = escape(str(item["src"]), quote=True)
    return f'<li style="--ratio:{ratio:.4f}"><span class="tile"><img src="{source}" alt="">{rank}</span></li>'


@lru_cache(maxsize=4)
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
