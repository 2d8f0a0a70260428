"""Where a model's files are: a directory, or an id on the Hugging Face hub."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpips_model.errors import ModelError

__all__ = ["ModelFiles", "check_regular_file", "find_model_files", "read_json"]

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
# Code (*.py) and pickled weights (*.bin, *.pt) of a repository are never fetched; the authors' checkpoint is one
# pickle, named in full, which is read by tensors alone.
FETCHED = ("*.json", "*.safetensors", "*.jinja", "*.txt", "model.pt")
LARGEST_JSON = 64 * 1024 * 1024


@dataclass(frozen=True)
class ModelFiles:
    """A model's directory and what it was asked for by.

    Attributes:
        directory: Holds ``config.json`` and the weights.
        name: The directory or hub id as it was given.
        revision: The commit on the hub; None for a directory.
    """

    directory: Path
    name: str
    revision: str | None = None


def find_model_files(name: str | os.PathLike[str], *, revision: str | None = None) -> ModelFiles:
    """Find a model's directory, fetching it from the hub if ``name`` is an id and not a directory.

    Args:
        name: A directory, or an id such as ``"Qwen/Qwen3-VL-Embedding-2B"``.
        revision: A branch, tag or commit of the hub repository; by default the newest.

    Raises:
        ModelError: There is no such directory, and no such repository within reach.
    """
    text = os.fspath(name)
    directory = Path(text)
    try:
        if directory.is_dir():
            if not (directory / "config.json").is_file():
                raise ModelError(f"{text} holds no config.json; give the directory of a model")
            return ModelFiles(directory, text)
    except OSError as error:  # too long for a path, links that go in circles, or no permission
        raise ModelError(
            f"{text!r:.120} is no model's name and cannot be looked at ({error.strerror or error}); give a directory "
            "or a hub id of the form 'owner/name'"
        ) from error
    if not HUB_ID.fullmatch(text):
        raise ModelError(
            f"there is no directory {text!r}, and it is no hub id of the form 'owner/name'; give either of the two"
        )
    from huggingface_hub import snapshot_download

    try:
        fetched = Path(snapshot_download(text, revision=revision, allow_patterns=list(FETCHED)))
    except Exception as error:  # the hub's client raises its own, the network's and the file system's kinds
        reason = next(iter(str(error).splitlines()), "no reason given")
        raise ModelError(
            f"{text!r} is no directory here, and could not be fetched from the Hugging Face hub "
            f"({type(error).__name__}: {reason}); check the id, the network and your access, or give a directory"
        ) from error
    # The folder of a snapshot is named for its commit.
    return ModelFiles(fetched, text, fetched.name)


def check_regular_file(path: Path) -> None:
    """Refuse what is there and no file: a named pipe would be waited for without end.

    Raises:
        ModelError: It is such a thing.
    """
    if path.exists() and not path.is_file():
        raise ModelError(f"{path} is no regular file; restore the model's files")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises:
        ModelError: The file is missing, too large, or holds no JSON object.
    """
    check_regular_file(path)
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise ModelError(f"{path} has {path.stat().st_size} bytes; no model's settings are that long")
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {path}: {error}") from error
    except RecursionError as error:
        raise ModelError(f"cannot read {path}: it is nested too deeply") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} holds a {type(value).__name__}, where an object of settings is expected")
    return value
