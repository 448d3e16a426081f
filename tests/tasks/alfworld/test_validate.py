"""The promises of the contract, for every panel whose games are there."""

import pytest

from benchmark.evaluation.validate_task import validate
from tasks.alfworld.task import AlfworldTask
from tests.tasks.alfworld.data import data_folder


@pytest.mark.slow
def test_builtin_keeps_its_promises() -> None:
    assert [check for check in validate(AlfworldTask(), "builtin", 300) if not check.ok] == []


@pytest.mark.slow
@pytest.mark.parametrize("panel", ["valid_seen", "valid_unseen"])
def test_real_panels_keep_their_promises(panel: str) -> None:
    data_folder()
    assert [check for check in validate(AlfworldTask(), panel, 60) if not check.ok] == []
