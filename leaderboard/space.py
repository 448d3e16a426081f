"""Starts the page as a Space of the Hugging Face hub: `app_file` in this folder's README.

A Space runs a file, not a package, so the repository's folder is put on Python's path first. The
workflow `space` puts the board next to the packages.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Serve the board at the address that the hub specifies."""
    from leaderboard.board.board import load
    from leaderboard.serve.server import start

    host = os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0")  # noqa: S104 - the hub's own proxy asks
    port = int(os.environ.get("GRADIO_SERVER_PORT", "7860"))
    start(load(ROOT / "leaderboard.parquet"), ROOT / "submissions", host, port)


if __name__ == "__main__":
    # Replaces this folder, whose modules are not top-level packages.
    sys.path[0] = str(ROOT)
    main()
