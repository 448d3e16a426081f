"""From a command to an open page, in as little time as gradio lets one have.

What is imported and built at the start is kept to the end, so looking for garbage in it is of no
use: without the collector the start takes a fifth less, and afterwards it leaves all of it alone.
Of the import of gradio a third goes into stubs for editors, which it compares with its sources and
writes into its own folder: a server needs none.
"""

import gc
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any


class NoStubs:
    """Finds gradio's module that makes stubs, and keeps it from making any.

    Where another version of gradio has no such module or function, nothing is different.
    """

    NAME = "gradio.component_meta"

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        spec = PathFinder.find_spec(name, path, target) if name == cls.NAME else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def without(module: ModuleType) -> None:
            execute(module)
            if hasattr(module, "create_or_modify_pyi"):
                vars(module)["create_or_modify_pyi"] = _nothing

        vars(spec.loader)["exec_module"] = without
        return spec


def _nothing(*_: Any) -> None:
    """Make no stub."""


def start(
    board: Path,
    submissions: Path,
    host: str = "127.0.0.1",
    port: int = 7860,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve a board until somebody ends it.

    Args:
        board: Its Parquet file.
        submissions: Where the folders of its entries are.
        host: Address to listen at.
        port: Port to listen at; 0 for any that is free.
        ready: Told the page's address once it can be opened.

    Raises:
        ModuleNotFoundError: gradio or another package of the page is not installed.
        UserError: The board cannot be read, or the port is taken.
    """
    gc.disable()
    sys.meta_path.insert(0, NoStubs)
    try:
        from leaderboard.board.board import load

        # Read before gradio is: a wrong file is said at once.
        known = load(board)
        from leaderboard.serve.server import application, serve

        served = application(known, submissions)
    finally:
        sys.meta_path.remove(NoStubs)
        gc.freeze()
        gc.enable()
    serve(served, host, port, ready)
