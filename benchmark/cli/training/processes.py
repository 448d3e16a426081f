"""The role of this process in a training run, from its launcher's environment variables.

An accelerator provides the same, but only after it has been created.
"""

import os


def process_count() -> int:
    """Number of processes of the run."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main() -> bool:
    """Whether this is the main process."""
    return os.environ.get("RANK", "0") == "0"
