"""From a command to an open page, in as little time as gradio lets one have.

What is imported and built at the start is kept to the end, so looking for garbage in it is of no
use: without the collector the start takes a fifth less, and afterwards it leaves all of it alone.
"""

import gc
from collections.abc import Callable
from pathlib import Path


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
    try:
        from leaderboard.data import load
        from leaderboard.server import application, serve

        # Read before the page is made: a wrong file is said at once.
        served = application(load(board), submissions)
    finally:
        gc.freeze()
        gc.enable()
    serve(served, host, port, ready)
