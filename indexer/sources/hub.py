"""Data sets of the Hugging Face hub, fetched parquet file by parquet file as they are indexed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from indexer.durable import make_folder, write_durably
from indexer.sources.download import free_for
from indexer.sources.remote import WebFile, cache_folder
from indexer.sources.shard_files import ShardFile
from indexer.sources.source import SourceError

__all__ = ["HubFile", "hub_files"]

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*|[A-Za-z0-9][\w.-]*")
# No step that is hidden or leads upwards, and none that begins at the root.
_NAME = re.compile(r"(?!/)(?!.*(^|/)\.)[^\0\\]+\.parquet", re.DOTALL)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LISTING = "tpips-files.json"
# Where the hub keeps the parquet form that it makes of data sets in other forms.
_CONVERTED = "refs/convert/parquet"


@dataclass(frozen=True)
class HubFile:
    """A file of a data set on the hub at one commit."""

    repo: str
    commit: str
    name: str
    size: int
    root: Path

    @property
    def shown(self) -> str:
        return f"{self.repo}/{self.name}"

    def fetch(self, path: Path) -> None:
        """Fetch the file under ``root``, where ``path`` is; huggingface_hub resumes and shows progress."""
        from huggingface_hub import hf_hub_download

        free_for(self.size, self.root, self.shown)
        try:
            hf_hub_download(self.repo, self.name, repo_type="dataset", revision=self.commit, local_dir=self.root)
        except Exception as error:  # a dozen kinds, of three libraries
            raise _failure(self.repo, error) from error
        if (size := path.stat().st_size) != self.size:
            path.unlink()
            raise SourceError(f"{self.shown} came with {size:,} bytes instead of {self.size:,}; run the command again")

    def tail(self, count: int) -> bytes | None:
        from huggingface_hub import hf_hub_url
        from huggingface_hub.utils import build_hf_headers

        url = hf_hub_url(self.repo, self.name, repo_type="dataset", revision=self.commit)
        headers = {name: value for name, value in build_hf_headers().items() if name.lower() == "authorization"}
        return WebFile(url, headers).tail(count)


def hub_files(repo: str, *, split: str | None, known: Path | None, local: str) -> tuple[Path, list[ShardFile]]:
    """Return the parquet files of a data set on the hub, and the folder that they are fetched to.

    The commit is looked up once: an index goes on with the one it was made from, and needs no network to list it.

    Args:
        repo: The data set's id.
        split: Only files of this split.
        known: The data root of the index, if there is one already.
        local: What to give for a local copy, for messages.

    Raises:
        SourceError: There is no such data set, it has no such parquet files, or there is no network.
    """
    if not _ID.fullmatch(repo) or len(repo) > 200:
        raise SourceError(f"{repo!r:.120} is no data set's id; give one such as hf:huggan/wikiart")
    home = cache_folder() / "hub"
    prefix = f"{repo.replace('/', '--')}@"
    root = known if known is not None and known.name.startswith(prefix) and known.is_dir() else None
    listing = _listed(root / _LISTING) if root is not None else None
    if root is None or listing is None:
        listing = _ask(repo, local)
        root = home / f"{prefix}{listing['commit'][:12]}"
        make_folder(root)
        write_durably(root / _LISTING, json.dumps(listing, indent=1).encode())
    files = [
        ShardFile(root / name, HubFile(repo, listing["commit"], name, size, root))
        for name, size in listing["files"].items()
        if split is None or _of_split(name, split)
    ]
    if not files:
        what = f"of split {split!r}, but {_splits(list(listing['files']))}" if split else "at all"
        raise SourceError(f"the data set {repo} has no parquet files {what}; see to its page on the hub")
    return root, files


def _ask(repo: str, local: str) -> dict[str, Any]:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RevisionNotFoundError

    api = HfApi()
    try:
        for revision in (None, _CONVERTED):
            commit = api.dataset_info(repo, revision=revision).sha or ""
            tree = api.list_repo_tree(repo, recursive=True, revision=commit, repo_type="dataset")
            sizes = {entry.path: entry.size for entry in tree if hasattr(entry, "size")}
            files = {name: size for name, size in sorted(sizes.items()) if _NAME.fullmatch(name)}
            if files and _COMMIT.fullmatch(commit):
                return {"commit": commit, "files": files}
    except RevisionNotFoundError:
        pass  # the hub has made no parquet form of it
    except Exception as error:  # a dozen kinds, of three libraries
        raise _failure(repo, error, local) from error
    raise SourceError(
        f"the data set {repo} has no parquet files on the hub, and the hub has made none of it; fetch its files and "
        f"give {local}"
    )


def _failure(repo: str, error: Exception, local: str = "a local copy with --data parquet:PATH") -> SourceError:
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    if isinstance(error, GatedRepoError):
        return SourceError(f"the data set {repo} wants its terms accepted on the hub; do so, then: hf auth login")
    if isinstance(error, RepositoryNotFoundError):
        return SourceError(f"the hub has no data set {repo!r}, or not for you; look at its spelling, or: hf auth login")
    status = error.response.status_code if isinstance(error, HfHubHTTPError) and error.response is not None else None
    why = f"the hub answered {status}" if status is not None else f"no answer from the hub ({type(error).__name__})"
    return SourceError(
        f"cannot fetch the data set {repo}: {why}. What has come is kept; run the same command again when the network "
        f"is there, or give {local}"
    )


def _listed(path: Path) -> dict[str, Any] | None:
    """Read a listing that was written here, or ``None`` where there is none that can be used."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        files = {str(name): int(size) for name, size in record["files"].items() if _NAME.fullmatch(name)}
        return {"commit": str(record["commit"]), "files": files}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _of_split(name: str, split: str) -> bool:
    *folders, file = name.split("/")
    return split in folders or re.match(rf"{re.escape(split)}[-_.]", file) is not None


def _splits(names: Sequence[str]) -> str:
    """Name the splits that there seem to be: files are called for them, or numbered in folders called for them."""
    found = set()
    for name in names:
        folder, _, file = name.removesuffix(".parquet").rpartition("/")
        found.add(folder.rpartition("/")[2] if file.isdecimal() else re.split(r"-[0-9]", file)[0])
    return ", ".join(repr(one) for one in sorted(found)[:8])
