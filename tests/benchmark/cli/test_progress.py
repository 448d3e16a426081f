"""Progress messages of an evaluation whose output is a file."""

import re

import pytest

from benchmark.cli import progress
from benchmark.cli.progress import Progress
from benchmark.engines.core.metered import MeteredEngine
from benchmark.engines.core.scripted import ScriptedEngine
from tests.support.runs.factories import make_record


def shown(capsys: pytest.CaptureFixture[str], interval: float) -> list[str]:
    """The lines for a run of four episodes, one of which already existed; two are solved."""
    records = [make_record(f"e{number}", success=number in (0, 2)) for number in range(4)]
    meter = MeteredEngine(ScriptedEngine("random"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "INTERVAL_S", interval)
        with Progress(4, records[:1]) as live:
            for record in records[1:]:
                live.update(record, meter)
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_a_log_gets_a_line_at_every_interval(capsys: pytest.CaptureFixture[str]) -> None:
    first, second, last = shown(capsys, 0.0)
    assert re.fullmatch(r"2 of 4 episodes: success 50\.0%, \d+ s left", first)
    assert second.startswith("3 of 4 episodes: success 66.7%")
    assert last == "4 of 4 episodes: success 50.0%"


def test_a_log_gets_no_more_lines_than_that(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, 3600.0) == ["4 of 4 episodes: success 50.0%"]
