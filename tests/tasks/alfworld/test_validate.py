"""The guarantees of the task interface, for every panel whose games are present."""

import pytest

from benchmark.task_checks import validate as validate_task
from benchmark.task_checks.validate import validate
from tasks.alfworld.task import AlfworldTask
from tests.tasks.alfworld.data import data_folder


@pytest.mark.slow
def test_builtin_keeps_its_promises() -> None:
    assert [check for check in validate(AlfworldTask(), "builtin", 300, 1) if not check.ok] == []


@pytest.mark.slow
@pytest.mark.parametrize("panel", ["valid_seen", "valid_unseen"])
def test_real_panels_keep_their_promises(panel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data_folder()
    # All games are played; the other checks use as many as users get on the built-in panel.
    monkeypatch.setattr(validate_task, "SUBSET", 16)
    assert [check for check in validate(AlfworldTask(), panel, 60, 1) if not check.ok] == []
