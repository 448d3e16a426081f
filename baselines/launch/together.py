"""Runs accelerate's launcher without its error report; the processes report their own errors.

That report is a traceback and a table that names the process whose exit was noticed first, which
often exited because of another one.
"""

import logging
import signal
import sys

from accelerate.commands.launch import launch_command, launch_command_parser
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from baselines.launch.plan import FAILED_ELSEWHERE, killed_text


def main() -> int:
    """Run accelerate's launcher on this program's arguments; return its exit code."""
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    try:
        launch_command(launch_command_parser().parse_args())
    except SignalException as error:
        return 128 + error.sigval
    except ChildFailedError as error:
        for rank, failure in sorted(error.failures.items()):
            # The launcher ends the other processes with SIGTERM.
            if failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM:
                what = f"process {rank} of the trainer"
                sys.stderr.write(killed_text(what, -failure.exitcode))
        # A process that failed because of another one says nothing; a failure precedes a stop.
        codes = {failure.exitcode for failure in error.failures.values()} - {FAILED_ELSEWHERE}
        return min((code for code in codes if code > 0), default=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
