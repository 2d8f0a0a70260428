"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

ROOMS = ("tpips_model", "indexer", "search", "train", "apps")


def modules() -> list[str]:
    names = []
    for room in ROOMS:
        package = importlib.import_module(room)
        names += [info.name for info in pkgutil.walk_packages(package.__path__, prefix=f"{room}.")]
    return names


@pytest.mark.parametrize("name", modules())
def test_examples(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.failed == 0
