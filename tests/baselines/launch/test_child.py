"""A child process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

GROUP = Path("/proc/self/autogroup")
NICE = """
import os
from pathlib import Path
from baselines.launch.child import Child
os.nice(7)
child = Child(["sleep", "60"], None)
print(Path(f"/proc/{child.pid}/autogroup").read_text(), os.getpriority(os.PRIO_PROCESS, child.pid))
child.kill()
"""


@pytest.mark.skipif(not GROUP.exists(), reason="a kernel without groups of sessions")
def test_a_child_is_as_nice_as_its_parent() -> None:
    """It has a session of its own, and with it a group for the scheduler."""
    made = subprocess.run(
        [sys.executable, "-c", NICE], capture_output=True, text=True, check=True, timeout=60
    )
    nice = min(os.nice(0) + 7, 19)
    assert f"nice {nice}\n {nice}" in made.stdout
