"""Limit of open files: every request in flight has a socket, and systems often allow 1,024."""

import resource
from typing import Final

from tasks.errors import UserError

SPARE: Final = 256
"""Open files besides the sockets: libraries, logs, environments."""
ENOUGH: Final = 65_536
"""The limit is raised to this, as in vLLM's server, or to what the system allows."""


def allow_sockets(count: int) -> None:
    """Raise this process's limit of open files if it is too low for `count` requests at once.

    Raises:
        UserError: The system allows fewer.
    """
    wanted = count + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise UserError(
            f"{count:,} requests at once need {wanted:,} open files, but the system allows this "
            f"process {hard:,}: raise the limit (ulimit -Hn), or send fewer at once (--concurrency "
            "N, or in training --set rollout.concurrency=N)"
        )
    most = max(wanted, ENOUGH)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
