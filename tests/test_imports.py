"""Imports point one way: leaderboard -> benchmark -> tasks, baselines -> benchmark -> tasks."""

import ast
from collections.abc import Iterator
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
        for name, at_top in imported(ast.parse(file.read_text("utf-8"))):
            # The command line reaches into other packages, but only when a command is called.
            lazy = not at_top and "cli" in file.parts
            assert name not in MAY_IMPORT or name in MAY_IMPORT[package] or lazy, (file, name)
            assert name not in HEAVY.get(package, ()), (file, name)
