"""Where a Milvus collection is: on a server, or in a file of Milvus Lite."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from indexer.given_path import given_path, resolved_path
from tpips_model.errors import TpipsError

__all__ = ["MilvusAddress", "MilvusError", "is_milvus_address"]

SCHEME = "milvus:"
DEFAULT_PORT = 19530
MAX_NAME = 200
_FORMS = "write milvus://HOST:19530/COLLECTION for a server, or milvus:FILE.db/COLLECTION for Milvus Lite"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class MilvusError(TpipsError):
    """A Milvus collection that cannot be reached, read or written; the message says why and what to do."""


def is_milvus_address(text: object) -> bool:
    """Tell whether a user means a Milvus collection rather than an index directory."""
    return isinstance(text, str) and text.startswith(SCHEME)


@dataclass(frozen=True)
class MilvusAddress:
    """One collection.

    Attributes:
        uri: Where pymilvus finds the database: a server's URL or a file's absolute path.
        collection: The collection's name.
        database: The server's database; empty means its default.
    """

    uri: str
    collection: str
    database: str = ""

    @classmethod
    def parse(cls, text: str) -> MilvusAddress:
        """Read an address.

        ``milvus://HOST[:PORT]/COLLECTION[?db=NAME][&tls=true]`` is a collection of a server, and
        ``milvus:FILE.db/COLLECTION`` (or ``milvus:///FILE.db/COLLECTION``) one in a file of Milvus Lite.

        Raises:
            MilvusError: It is of neither form, holds a secret, or names what no collection can be called.

        Examples:
            >>> MilvusAddress.parse("milvus://db.example.org/paintings?tls=true")
            MilvusAddress(uri='https://db.example.org:19530', collection='paintings', database='')
        """
        rest = text.removeprefix(SCHEME)
        if rest.startswith("//") and not rest.startswith("///"):
            return cls._of_server(text)
        path, _, collection = rest.removeprefix("//").rpartition("/")
        if not path.endswith(".db"):
            raise MilvusError(f"{text!r} names no file whose name ends with .db; {_FORMS}")
        file = given_path(path, what="the Milvus Lite file", kind=MilvusError)
        absolute = resolved_path(file, what="the Milvus Lite file", kind=MilvusError)
        return cls(str(absolute), _collection(collection))

    @classmethod
    def _of_server(cls, text: str) -> MilvusAddress:
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port or DEFAULT_PORT
        except ValueError as error:
            raise MilvusError(f"the Milvus address cannot be read: {error}; {_FORMS}") from None
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        if "@" in parts.netloc or not options.keys() <= {"db", "tls"}:
            # Not quoted: what stands there may be a secret.
            raise MilvusError(
                "a Milvus address has no user, password or token in it, and no options but db and tls; give the token, "
                "or user:password, in the environment variable MILVUS_TOKEN"
            )
        if not host:
            raise MilvusError(f"{text!r} names no host; {_FORMS}")
        if host.endswith(".db"):
            raise MilvusError(f"{text!r} names the host {host!r}; for a file write milvus:{host}{parts.path}")
        tls = options.get("tls", "false").lower()
        if tls not in ("true", "false"):
            raise MilvusError(f"tls in {text!r} must be true or false")
        shown = f"[{host}]" if ":" in host else host
        uri = f"{'https' if tls == 'true' else 'http'}://{shown}:{port}"
        return cls(uri, _collection(parts.path.removeprefix("/")), options.get("db", ""))

    @property
    def is_file(self) -> bool:
        """Whether the collection is in a file of Milvus Lite."""
        return self.uri.endswith(".db")

    def __str__(self) -> str:
        if self.is_file:
            return f"{SCHEME}{self.uri}/{self.collection}"
        scheme, _, host = self.uri.partition("://")
        options = [f"db={self.database}"] if self.database else []
        options += ["tls=true"] if scheme == "https" else []
        return f"{SCHEME}//{host}/{self.collection}{'?' if options else ''}{'&'.join(options)}"


def _collection(name: str) -> str:
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise MilvusError(
            f"{name!r:.80} cannot be the name of a collection, which is made of ASCII letters, digits and "
            f"underscores, and begins with no digit; {_FORMS}"
        )
    return name
