"""The rules of the house that a parser can see."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# room -> the rooms it may import; everything else of ours would be an import leftwards.
ALLOWED = {
    "apps": {"search", "indexer", "tpips_model"},
    "search": {"indexer", "tpips_model"},
    "indexer": {"tpips_model"},
    "train": {"tpips_model"},
    "tpips_model": set(),
}
SOURCES = [path for room in ALLOWED for path in sorted((ROOT / room).rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
HEAVY = ("torch", "transformers", "ray", "streamlit", "pandas")


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported_modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute, so that their direction can be read"
            yield node.module or ""


def identifier(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=identifier)
def test_imports_go_one_way(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0]
    ours = {name.split(".")[0] for name in imported_modules(parse(path))} & (set(ALLOWED) | {"tests", "benchmarks"})
    assert ours - {room} <= ALLOWED[room]


@pytest.mark.parametrize("room", ["search", "indexer"])
def test_importing_loads_nothing_heavy(room: str) -> None:
    program = f"import sys, {room}; print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=identifier)
def test_nothing_unpickles(path: Path) -> None:
    tree = parse(path)
    assert not {"pickle", "dill", "joblib", "cloudpickle"} & {name.split(".")[0] for name in imported_modules(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("torch.load", "np.load", "numpy.load"):
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            if ast.unparse(node.func) == "torch.load":
                assert given.get("weights_only") == "True", f"line {node.lineno}"
            else:
                assert given.get("allow_pickle", "False") == "False", f"line {node.lineno}"


@pytest.mark.parametrize("path", TESTS, ids=identifier)
def test_every_expected_error_is_matched(path: Path) -> None:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.raises":
            assert "match" in {keyword.arg for keyword in node.keywords}, f"line {node.lineno}"


@pytest.mark.parametrize("path", SOURCES, ids=identifier)
def test_modules_are_named_for_a_thing(path: Path) -> None:
    assert path.stem not in {"util", "utils", "helper", "helpers", "common", "misc", "base"}


@pytest.mark.parametrize("path", [p for p in SOURCES if p.name == "__init__.py"], ids=identifier)
def test_package_files_only_re_export(path: Path) -> None:
    allowed = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    for node in parse(path).body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        assert docstring or isinstance(node, allowed), f"line {node.lineno}"
