"""The OpenAPI schema, held against a live server by schemathesis.

Well-formed requests name keys and aspects that there are, so that most of them are answered; malformed ones must be
refused. No answer is a server error, and every answer is as the schema describes it.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.config import (
    ChecksConfig,
    PositiveDataAcceptanceConfig,
    ProjectConfig,
    ProjectsConfig,
    SchemathesisConfig,
)

from apps.server import ServerSettings, make_application
from indexer import IndexDirectory
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.server import ASPECTS, KEYS, live, picture, write_gallery

API_KEY = "a-key-for-the-schema-tests"
HEADERS = {"Authorization": f"Bearer {API_KEY}"}
# What a filter or a penalty means no schema can say.
ACCEPTED = ("2xx", "404", "422")
WITHOUT_PARAMETERS = (("/index", "get"), ("/health", "get"), ("/ready", "get"), ("/metrics", "get"))
OPERATIONS = (
    ("/query", "post"),
    ("/query/batch", "post"),
    ("/query/percentile", "post"),
    ("/similar", "post"),
    ("/items", "get"),
    ("/items/{key}", "get"),
    ("/items/{key}/image", "get"),
    *WITHOUT_PARAMETERS,
)
CASES = [
    (*operation, mode)
    for operation in OPERATIONS
    for mode in GenerationMode
    if mode.is_positive or operation not in WITHOUT_PARAMETERS  # which nothing could be wrong with
]
EXAMPLES = 5


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    index = IndexDirectory.open(write_gallery(tmp_path_factory.mktemp("schema") / "index"))
    limits = ServerSettings(api_key=API_KEY, max_upload=1 << 20)
    with live(make_application(index, limits, embedder=StubEmbedder())) as found:
        yield found


def known_words(schema: dict[str, Any]) -> dict[str, Any]:
    """Fill in the keys and aspects of the index, which a schema cannot know."""
    words = {
        "key": list(KEYS),
        "aspect": list(ASPECTS),
        "picture": [base64.b64encode(picture(seed)).decode() for seed in (1, 50)],
    }
    for model in ("TermRequest", "SimilarRequest"):
        for name, values in words.items():
            schema["components"]["schemas"][model]["properties"][name]["enum"] = values
    for path, operations in schema["paths"].items():
        if "{key}" in path:
            for parameter in operations["get"]["parameters"]:
                if parameter["in"] == "path":
                    parameter["schema"]["enum"] = [key for key in KEYS if key.strip(".")]
    return schema


@pytest.fixture(scope="module")
def described(address: str) -> dict[str, Any]:
    return known_words(httpx.get(f"{address}/openapi.json").json())


@pytest.fixture(scope="module")
def api(address: str, described: dict[str, Any]) -> schemathesis.BaseSchema:
    checks = ChecksConfig(positive_data_acceptance=PositiveDataAcceptanceConfig(expected_statuses=ACCEPTED))
    project = ProjectConfig(headers=HEADERS, base_url=address, checks=checks)
    config = SchemathesisConfig(projects=ProjectsConfig(default=project))
    return schemathesis.openapi.from_dict(described, config=config)


def test_every_operation_is_tried(described: dict[str, Any]) -> None:
    found = {(path, method) for path, operations in described["paths"].items() for method in operations}
    assert found == set(OPERATIONS)


@pytest.mark.parametrize(("path", "method", "mode"), CASES)
def test_requests_of_every_kind(api: schemathesis.BaseSchema, path: str, method: str, mode: GenerationMode) -> None:
    operation = api[path][method]

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy(mode))
    def ask(case: schemathesis.Case) -> None:
        case.call_and_validate()

    ask()


@pytest.mark.slow
def test_all_that_schemathesis_can_think_of(address: str, described: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "openapi.json").write_text(json.dumps(described), encoding="utf-8")
    accepted = ", ".join(f'"{status}"' for status in ACCEPTED)
    (tmp_path / "schemathesis.toml").write_text(
        f"[checks.positive_data_acceptance]\nexpected-statuses = [{accepted}]\n", encoding="utf-8"
    )
    program = shutil.which("schemathesis", path=str(Path(sys.executable).parent)) or "schemathesis"
    ran = subprocess.run(
        [program, "run", "openapi.json", "--url", address, "-H", f"Authorization: Bearer {API_KEY}",
         "--mode", "all", "--max-examples", "50", "--seed", "1", "--continue-on-failure"],
        cwd=tmp_path, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
