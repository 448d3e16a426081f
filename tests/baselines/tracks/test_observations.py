"""Statements in the tracks' README about all finished runs that no page computes."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

import baselines
from baselines.study.cells import read_cell, read_plays
from baselines.study.schema import Cell, cells_of, read_study
from benchmark.stats.formatting import points_text
from benchmark.stats.intervals import Interval
from benchmark.stats.paired import Side, difference
from benchmark.submissions.check import read_accepted

BASELINES = Path(baselines.__file__).parent
REPOSITORY = BASELINES.parent


def beside_the_clone(task: str) -> Mapping[Cell, Interval]:
    """Finished runs on a task's `standard` track, minus the clone of its first player."""
    (checkpoint,) = read_accepted(REPOSITORY / f"submissions/20261121_tiny-{task}").checkpoints
    (run,) = checkpoint.runs
    clone = {record.episode: record.solved for record in run.records}
    assert len(clone) > 100
    order = sorted(clone)
    found = {}
    for cell in cells_of(read_study(BASELINES / "studies/table.yaml")):
        if cell.track == f"{task}-standard":
            finished = read_cell(BASELINES / "results", cell)
            if finished is not None:
                plays = read_plays(finished)[task, "builtin"]
                assert plays.keys() == clone.keys()
                sides = [Side.of([[each[episode]] for episode in order]) for each in (plays, clone)]
                found[cell] = difference(*sides)
    return found


@pytest.mark.slow
def test_the_runs_that_beat_a_clone_of_the_first_player_are_named() -> None:
    alfworld, webshop = map(beside_the_clone, ("alfworld", "webshop"))
    assert max(margin.value for margin in webshop.values()) < 0
    above = {cell: margin for cell, margin in alfworld.items() if margin.low > 0}
    found = [
        f"`{cell.recipe}` seed {cell.seed} ({points_text(margin)} points)"
        for cell, margin in sorted(above.items(), key=lambda each: (-each[1].value, each[0].seed))
    ]
    assert {cell.recipe for cell in above} == {"dapo_gigpo", "sampo"}
    total = len(alfworld) + len(webshop)
    text, first = (
        " ".join((REPOSITORY / name).read_text("utf-8").split())
        for name in ("baselines/tracks/README.md", "README.md")
    )
    assert (
        f"Of {total} runs on their `standard` tracks, {len(above)} have been shown to beat a clone "
        "of the first player alone (36.1 and 32.4%), all on ALFWorld with dynamic sampling: "
        f"{', '.join(found)}. The pairs are episodes"
    ) in text
    assert f"{len(above)} of {total} runs have been shown to beat a clone of the better" in first


def test_the_first_page_counts_the_runs_of_the_sweep() -> None:
    page = (BASELINES / "results/robustness.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    (start,) = [number for number, row in enumerate(rows) if row[0] == "recipe"]
    heads, *methods = rows[start], *rows[start + 2 :]
    assert [method[0] for method in methods] == ["grpo", "gspo", "cispo", "cispo_sm", "sampo"]
    counts = [re.findall(r"(\d+) of (\d+) collapsed", " ".join(method)) for method in methods]
    assert {len(each) for each in counts} == {6}
    fewest = min(int(runs) for method in counts for _, runs in method)
    first = " ".join((REPOSITORY / "README.md").read_text("utf-8").split())
    assert f"around `sokoban-stress`, with at least {fewest} seed" in first
    for recipe, _, margin, *_ in methods[1:]:
        assert re.search(rf"`{recipe}` {re.escape(margin)}[ ,.]", first)
    names = re.findall(r"\((sokoban-[a-z0-9-]+)/README.md\)", " ".join(heads))
    lower = [
        count
        for name, count in zip(names, counts[0], strict=True)
        if re.search("-x[13](-|$)", name)
    ]
    assert [collapsed for collapsed, _ in lower] == ["0"] * 4
    made = sum(int(runs) for _, runs in lower)
    assert f"GRPO does not collapse on Sokoban (0 of {made} runs)" in first
