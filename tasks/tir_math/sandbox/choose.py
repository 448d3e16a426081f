"""Opens the sandbox that the user chose, without any fallback."""

from tasks.errors import UserError, suggestion
from tasks.tir_math.sandbox.base import Sandbox
from tasks.tir_math.sandbox.bubblewrap import BubblewrapSandbox
from tasks.tir_math.sandbox.http_client import from_environment
from tasks.tir_math.sandbox.unsafe import UnsafeSandbox

KINDS = ("bubblewrap", "http", "unsafe")


def open_sandbox(kind: str, warm: int = 1) -> Sandbox:
    """Open a sandbox, and see that it can be used.

    Args:
        kind: One of `KINDS`.
        warm: Programs that bubblewrap runs at a time, each in a process that is kept warm.

    Raises:
        UserError: There is no such kind, or it cannot be used here; the message says what to do.
    """
    if kind == "bubblewrap":
        return BubblewrapSandbox(warm)
    if kind == "http":
        return from_environment()
    if kind == "unsafe":
        return UnsafeSandbox()
    raise UserError(f"there is no sandbox {kind!r}{suggestion(kind, KINDS)}")
