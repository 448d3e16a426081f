"""What this process is among those of a training run, as its launcher says.

An accelerator says the same, but only once it has been made.
"""

import os


def process_count() -> int:
    """Processes of the run."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main() -> bool:
    """Whether this is the process that speaks for all."""
    return os.environ.get("RANK", "0") == "0"
