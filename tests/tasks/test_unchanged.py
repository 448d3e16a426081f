"""Protocols, environments and training streams are the ones used by existing runs and submissions.

`unchanged.json` was written before the tasks were rebuilt. A difference here means that existing
records belong to another task: increase the task's version, and say so in the changelog.
"""

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from benchmark.evaluation.protocol import PanelProtocol
from tasks.errors import UserError
from tasks.registry import load_task
from tasks.seeding import canonical_json
from tasks.trace import trace_panel

PINNED: dict[str, dict[str, str]] = json.loads(
    Path(__file__).with_name("unchanged.json").read_text("utf-8")
)
ENTRIES = 8
"""Episodes per panel to play here; the complete panels are pinned in `panels/index.json`."""
STREAMS = (0, 1)


def panels() -> list[str]:
    return [name for name in PINNED if "/" in name]


@pytest.mark.slow
@pytest.mark.parametrize("name", panels())
def test_protocol_and_world_of_a_panel(name: str) -> None:
    task_name, _, panel_name = name.partition("/")
    task = load_task(task_name)
    if not task.available(panel_name):
        pytest.skip(f"the data of {name} is not here")
    try:
        task.require()
    except UserError as error:
        pytest.skip(str(error))
    panel = task.panel(panel_name)
    # Versions of packages depend on the machine.
    protocol = replace(PanelProtocol.of(task, panel), packages={})
    played = trace_panel(task, replace(panel, entries=panel.entries[:ENTRIES]))
    assert {"fingerprint": protocol.fingerprint, "trace": played.sha256} == PINNED[name]


@pytest.mark.parametrize("name", [name for name in PINNED if "/" not in name])
def test_training_stream(name: str) -> None:
    task = load_task(name)
    entries = [task.training_entry(i, seed) for seed in STREAMS for i in range(ENTRIES)]
    digest = hashlib.sha256(canonical_json([asdict(entry) for entry in entries]).encode())
    assert {"stream": digest.hexdigest(), "max_turns": str(task.training_max_turns)} == PINNED[name]
