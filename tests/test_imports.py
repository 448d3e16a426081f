"""Imports point one way, between packages and between their folders, and folders stay small.

leaderboard -> benchmark -> tasks, baselines -> benchmark -> tasks.
"""

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "tasks": {"tasks"},
    "benchmark": {"benchmark", "tasks"},
    "baselines": {"baselines", "benchmark", "tasks"},
    "leaderboard": {"leaderboard", "benchmark", "tasks"},
}
HEAVY = {"tasks": {"torch", "transformers", "vllm", "gradio", "aiohttp"}}


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def imported(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Top-level names that a module imports, and whether at its top level."""
    top = set(map(id, ast.iter_child_nodes(tree)))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name.split(".")[0], id(node) in top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0], id(node) in top


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_one_way(package: str) -> None:
    for file in sorted((ROOT / package).rglob("*.py")):
        for name, at_top in imported(parsed(file)):
            # The command line reaches into other packages, but only when a command is called.
            lazy = not at_top and "cli" in file.parts
            assert name not in MAY_IMPORT or name in MAY_IMPORT[package] or lazy, (file, name)
            assert name not in HEAVY.get(package, ()), (file, name)


def modules() -> dict[str, Path]:
    """Every module of the packages, by its dotted name."""
    files = [file for package in MAY_IMPORT for file in (ROOT / package).rglob("*.py")]
    return {dotted(file): file for file in files}


def dotted(file: Path) -> str:
    """A module's name; that of a package for its `__init__.py`."""
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported_modules(tree: ast.AST, known: dict[str, Path]) -> Iterator[str]:
    """Modules of the packages that a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            within = [f"{node.module}.{name.name}" for name in node.names]
            yield from (name for name in (node.module, *within) if name in known)


def inner(name: str, file: Path) -> str:
    """The folder that a module lies in."""
    return name if file.parent.parent == ROOT else str(file.parent.relative_to(ROOT))


def outer(name: str, file: Path) -> str:
    """The folder of a package that a module lies in, however deep."""
    parts = file.parent.relative_to(ROOT).parts
    return name if len(parts) == 1 else "/".join(parts[:2])


@pytest.mark.parametrize("place", [inner, outer])
def test_imports_between_folders_have_no_circle(place: Callable[[str, Path], str]) -> None:
    """A folder, or a file that lies in a package itself, is imported by those above it only."""
    known = modules()
    room = {name: place(name, file) for name, file in known.items()}
    needs = defaultdict(set)
    for name, file in known.items():
        for other in imported_modules(parsed(file), known):
            if room[other] != room[name]:
                needs[room[name]].add(room[other])
    order = list(TopologicalSorter(needs).static_order())
    assert order.index("benchmark/stats") < order.index("benchmark/submissions")


def test_a_folder_has_at_most_fifteen_modules() -> None:
    for package in MAY_IMPORT:
        for folder in {file.parent for file in (ROOT / package).rglob("*.py")}:
            files = [file.name for file in folder.glob("*.py") if not file.name.startswith("__")]
            assert len(files) <= 15, (folder, len(files))
