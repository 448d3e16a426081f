"""accelerate's launcher; its processes say themselves why they end.

Its own end is a traceback and a table that names the process whose end was noticed first, which is
often one that ended because of another.
"""

import logging
import signal
import sys

from accelerate.commands.launch import launch_command, launch_command_parser
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError


def main() -> int:
    """Run accelerate's launcher on this program's arguments; return its exit code."""
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    try:
        launch_command(launch_command_parser().parse_args())
    except SignalException as error:
        return 128 + error.sigval
    except ChildFailedError as error:
        for rank, failure in sorted(error.failures.items()):
            # SIGTERM is how the launcher ends the others.
            if failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM:
                name = signal.Signals(-failure.exitcode).name
                sys.stderr.write(
                    f"error: process {rank} of the trainer was ended by {name} (out of host "
                    "memory? see the system's log); run the same command again to resume from the "
                    "last checkpoint\n"
                )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
