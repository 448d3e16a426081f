"""Imports point one way, between packages and between their folders, and folders stay small.

leaderboard -> benchmark -> tasks, baselines -> benchmark -> tasks.
"""

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Import:
    """An import statement, `import NAME` or `from NAME import PARTS`.

    Attributes:
        names: The imported names, dotted: `NAME`, and for a `from` import also `NAME.PART`.
        at_top: Whether it is at the module's top level.
        for_types: Whether it is under `if TYPE_CHECKING`.
    """

    names: tuple[str, ...]
    at_top: bool
    for_types: bool


@cache
def imports(file: Path) -> tuple[Import, ...]:
    """All absolute imports of a module."""
    tree = ast.parse(file.read_text("utf-8"))
    return tuple(_imports(tree.body, at_top=True))


def _imports(nodes: Iterable[ast.AST], at_top: bool, for_types: bool = False) -> Iterator[Import]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield Import(tuple(name.name for name in node.names), at_top, for_types)
        elif isinstance(node, ast.ImportFrom):
            if node.module and not node.level:
                parts = (f"{node.module}.{name.name}" for name in node.names)
                yield Import((node.module, *parts), at_top, for_types)
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            yield from _imports(ast.iter_child_nodes(node), False, for_types or typing)


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_one_way(package: str) -> None:
    for file in sorted((ROOT / package).rglob("*.py")):
        for found in imports(file):
            # The command line imports other packages, but only when a command is called.
            lazy = not found.at_top and "cli" in file.parts
            for name in () if found.for_types else {name.split(".")[0] for name in found.names}:
                assert name not in MAY_IMPORT or name in MAY_IMPORT[package] or lazy, (file, name)
                assert name not in HEAVY.get(package, ()), (file, name)


def modules() -> dict[str, Path]:
    """Every module of the packages, by its dotted name."""
    files = [file for package in MAY_IMPORT for file in (ROOT / package).rglob("*.py")]
    return {dotted(file): file for file in files}


def dotted(file: Path) -> str:
    """A module's name; for an `__init__.py`, that of its package."""
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def inner(name: str, file: Path) -> str:
    """The folder of a module."""
    return name if file.parent.parent == ROOT else str(file.parent.relative_to(ROOT))


def outer(name: str, file: Path) -> str:
    """The top-level folder in a package that contains a module, however deep."""
    parts = file.parent.relative_to(ROOT).parts
    return name if len(parts) == 1 else "/".join(parts[:2])


@pytest.mark.parametrize("place", [inner, outer])
def test_imports_between_folders_have_no_circle(place: Callable[[str, Path], str]) -> None:
    """A folder, or a file directly in a package, is imported only by those above it."""
    known = modules()
    room = {name: place(name, file) for name, file in known.items()}
    needs: defaultdict[str, set[str]] = defaultdict(set)
    for name, file in known.items():
        others = (other for found in imports(file) for other in found.names if other in known)
        needs[room[name]].update(room[other] for other in others if room[other] != room[name])
    order = list(TopologicalSorter(needs).static_order())
    assert order.index("benchmark/stats") < order.index("benchmark/submissions")


def test_a_folder_has_at_most_fifteen_modules() -> None:
    for package in MAY_IMPORT:
        for folder in {file.parent for file in (ROOT / package).rglob("*.py")}:
            files = [file.name for file in folder.glob("*.py") if not file.name.startswith("__")]
            assert len(files) <= 15, (folder, len(files))
