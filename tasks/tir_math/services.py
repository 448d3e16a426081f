"""The sandbox and the answer checker of this process, shared by all of its episodes."""

import atexit
from functools import cache

from tasks.tir_math.checking import Checker
from tasks.tir_math.sandbox.base import Sandbox
from tasks.tir_math.sandbox.choose import open_sandbox


@cache
def sandbox(kind: str) -> Sandbox:
    """The sandbox of a kind; opened once, closed at the end of the process.

    Raises:
        UserError: It cannot be used here.
    """
    opened = open_sandbox(kind)
    atexit.register(opened.close)
    return opened


@cache
def checker() -> Checker:
    """The answer checker; its process is started at the first question."""
    opened = Checker()
    atexit.register(opened.close)
    return opened
