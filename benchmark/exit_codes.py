"""Exit codes of the program, by which schedulers and launchers tell how a command has ended."""

from typing import Final

EXIT_USER_ERROR: Final = 2
"""A user error, printed on one line."""
EXIT_ENGINE_DOWN: Final = 3
"""The engine failed; the run can be resumed."""
EXIT_INTERRUPTED: Final = 130
"""Ctrl-C, or another request to stop."""
