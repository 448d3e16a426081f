"""Which sandbox a run uses."""

from pathlib import Path

import pytest

from tasks.errors import UserError
from tasks.tir_math.sandbox.base import LIMITS
from tasks.tir_math.sandbox.bubblewrap import BubblewrapSandbox
from tasks.tir_math.sandbox.choose import open_sandbox
from tasks.tir_math.sandbox.layout import zygote_arguments
from tests.tasks.tir_math.sandbox.needs import needs_bubblewrap


@needs_bubblewrap
def test_bubblewrap_is_opened() -> None:
    with open_sandbox("bubblewrap") as sandbox:
        assert isinstance(sandbox, BubblewrapSandbox)
        assert sandbox.describe()["kind"] == "bubblewrap"


def test_unsafe_is_opened() -> None:
    with open_sandbox("unsafe") as sandbox:
        assert sandbox.describe()["kind"] == "unsafe"
        assert sandbox.run("print(1+1)").stdout == "2\n"


def test_a_missing_bubblewrap_is_told_and_nothing_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError) as raised:
        open_sandbox("bubblewrap")
    assert str(raised.value) == (
        "the sandbox needs bubblewrap, but bwrap is not installed; install it "
        "(Debian: apt-get install bubblewrap), or choose another way: --set "
        "tir_math.sandbox=http (a server runs the programs), or --set "
        "tir_math.sandbox=unsafe (they run WITHOUT isolation)"
    )


def test_other_kinds_are_refused() -> None:
    with pytest.raises(UserError, match="no sandbox 'bublewrap'; did you mean bubblewrap"):
        open_sandbox("bublewrap")
    with pytest.raises(UserError, match="no sandbox ''"):
        open_sandbox("")


def test_an_unknown_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(UserError, match="x86_64 and aarch64, but this machine is riscv64"):
        zygote_arguments(3, LIMITS, ())
