"""A child process of the launcher."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from baselines.launch.child import Child, process_start

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


def test_a_killed_child_takes_what_it_has_started_with_it(tmp_path: Path) -> None:
    output = tmp_path / "output"
    child = Child(["/bin/sh", "-c", "sleep 60 & echo $!; wait"], output)
    while not output.read_text("utf-8").endswith("\n"):
        time.sleep(0.05)
    pid = int(output.read_text("utf-8"))
    assert process_start(pid) is not None
    child.kill()
    while child.poll() is None or process_start(pid) is not None:
        time.sleep(0.05)


def test_a_process_that_has_ended_has_no_beginning() -> None:
    process = subprocess.Popen(["true"])
    while Path(f"/proc/{process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.05)
    assert process_start(process.pid) is None
    process.wait()


@pytest.mark.skipif(not GROUP.exists(), reason="a kernel without groups of sessions")
def test_a_child_is_as_nice_as_its_parent() -> None:
    """The child has its own session, and with it a scheduling group."""
    made = subprocess.run(
        [sys.executable, "-c", NICE], capture_output=True, text=True, check=True, timeout=60
    )
    nice = min(os.nice(0) + 7, 19)
    assert f"nice {nice}\n {nice}" in made.stdout
