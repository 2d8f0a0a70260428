"""Addresses of remote files: shown and stored without their secrets."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import parse_qsl, quote, unquote, urlsplit

__all__ = ["file_identity", "is_url", "is_web_url", "local_name", "redacted", "without_secrets"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# Query fields that sign a request, name its signer or say until when: they change from day to day, and are nobody's
# business. No other field is taken for one, since it may tell two files apart.
_SIGNING = re.compile(
    r"x-(amz|goog|oss|cos)-.*|signature|sig|expires|key-pair-id|policy|(aws|oss)accesskeyid|googleaccessid",
    re.IGNORECASE,
)
_SIGNING_WITH_SIG = frozenset(("se", "sp", "sr", "st", "sv", "spr", "skoid", "sktid", "skt", "ske", "sks", "skv"))
_LONGEST_STEP = 120


def is_url(text: str) -> bool:
    """Tell whether a text is an address such as ``s3://bucket/x.tar``."""
    return _SCHEME.match(text) is not None


def is_web_url(text: str) -> bool:
    """Tell whether a text is an http or https address."""
    return text.lower().startswith(("http://", "https://"))


def redacted(url: str) -> str:
    """Return an address without what may be secret: user and password, query and fragment.

    >>> redacted("https://me:pass@example.org/a/0.tar?X-Amz-Signature=1f")
    'https://example.org/a/0.tar'
    """
    scheme, _, rest = url.partition("://")
    rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def without_secrets(message: str, url: str) -> str:
    """Return another library's message about an address with the address, and its query and user, taken out."""
    parts = urlsplit(url)
    for secret in (url, parts.query, parts.netloc.rpartition("@")[0], parts.password):
        if secret:
            message = message.replace(secret, redacted(url) if secret == url else "…")
    return message


def file_identity(url: str) -> tuple[str, str]:
    """Return what tells a remote file from others whoever asks for it: its address, and a mark of its query.

    >>> file_identity("https://me:pass@example.org/a.jpg?id=1&X-Amz-Signature=1f")
    ('https://example.org/a.jpg', '~cb774a99')
    >>> file_identity("https://example.org/a.jpg?Expires=9&Signature=1f")
    ('https://example.org/a.jpg', '')
    """
    query = url.partition("#")[0].partition("?")[2]
    fields = parse_qsl(query, keep_blank_values=True, encoding="utf-8", errors="surrogateescape")
    names = {name.lower() for name, _ in fields}
    azure = _SIGNING_WITH_SIG if "sig" in names else frozenset()
    fields = [field for field in fields if not _SIGNING.fullmatch(field[0]) and field[0].lower() not in azure]
    digest = hashlib.sha256(repr(sorted(fields)).encode("utf-8", "backslashreplace")).hexdigest()
    return redacted(url), f"~{digest[:8]}" if fields else ""


def local_name(url: str) -> str:
    """Return the relative path under which a remote file is kept: scheme and host, then the address's own path.

    A mark of the query stands before the suffix.

    >>> local_name("https://me@example.org:8080/a%20b/../0.tar?X-Amz-Date=2")
    'https-example.org+8080/a%20b/__/0.tar'
    """
    address, mark = file_identity(url)
    scheme, _, rest = address.partition("://")
    host, _, path = rest.partition("/")
    steps = [_step(step) for step in path.split("/") if step not in ("", ".")] or ["index"]
    stem, dot, ending = steps[-1].partition(".")
    steps[-1] = f"{stem}{mark}{dot}{ending}"
    return "/".join([_step(f"{scheme.lower()}-{host.lower().replace(':', '+')}"), *steps])


def _step(step: str) -> str:
    if step == "..":
        return "__"
    plain = quote(unquote(step, errors="surrogateescape"), safe="+=,@~-_.", errors="surrogateescape")
    if len(plain) > _LONGEST_STEP:
        return f"{plain[:60]}~{hashlib.sha256(plain.encode()).hexdigest()[:8]}~{plain[-40:]}"
    return f"_{plain[1:]}" if plain in (".", "..") else plain
