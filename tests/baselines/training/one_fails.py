"""A run of several processes, one of which fails while the others wait for it.

python one_fails.py error|all|vanish|unseen|wait|stop0|stop1|leaves|cancelled

With `all` every one has the error, as where a user's code has a mistake. With `unseen` the others
wait for each other, as in NCCL's collectives, which do not notice a process that is killed. With
`wait` none ends badly: all wait for a signal. With `stop0` and `stop1` all were asked to end, and
the process of that number takes long. With `leaves` one is asked to end and the other is killed;
with `cancelled` one is asked to end before training has begun, and the other waits for it.
"""

import asyncio
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from accelerate import Accelerator

from baselines.training.processes import StoppedTogether, ended_together
from tasks.errors import UserError

if __name__ == "__main__":
    how = sys.argv[1]
    accelerator = Accelerator(cpu=True)
    try:
        with ended_together(accelerator):
            accelerator.wait_for_everyone()
            if how == "all" or (accelerator.process_index == 1 and how == "error"):
                raise UserError("the disk is full")
            if how == "wait":
                sys.stdout.write("waiting\n")
                sys.stdout.flush()
                signal.pause()
            if how.startswith("stop"):
                time.sleep(25 if how == f"stop{accelerator.process_index}" else 0)
                raise StoppedTogether
            if how == "leaves" and accelerator.is_main_process:
                raise StoppedTogether
            if how == "cancelled" and accelerator.is_main_process:
                raise asyncio.CancelledError
            if how == "cancelled":
                accelerator.wait_for_everyone()
            if accelerator.process_index == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "unseen":
                # Python code, such as handlers for a launcher's signals, does not run in here.
                dist.recv(torch.zeros(1), src=2 - accelerator.process_index)
            accelerator.wait_for_everyone()
    except asyncio.CancelledError:
        sys.exit(0)
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
