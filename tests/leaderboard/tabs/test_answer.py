"""The answer above the fold, coverage, and the definition of a collapse."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmark.evaluation.protocol import PIXELS
from benchmark.stats.intervals import Interval
from leaderboard.board.board import Board, load
from leaderboard.board.file import PARQUET, BoardContent, parquet_bytes
from leaderboard.board.protocols import BoardFacts, Grid, StudyRun
from leaderboard.board.rows import DependableSuccess, FullRow, Model
from leaderboard.board.training_rows import (
    EventCount,
    NamedValue,
    SeedCurves,
    Spark,
    Stability,
)
from leaderboard.page.header import footer
from leaderboard.page.marks import below_init_chip, collapse_chip, interval_bar, sparkline
from leaderboard.page.query import choices_of
from leaderboard.page.state import State, default_panels, filled
from leaderboard.table.columns import dependable_of, worst_of
from leaderboard.tabs.answer import answer, init_of_entry, init_success, order_of_track, summary
from leaderboard.tabs.board import board_page, chosen, uninformative
from leaderboard.tabs.coverage import coverage_page
from leaderboard.tabs.entry.page import entry_page
from leaderboard.tabs.success import success_chart
from tests.leaderboard.conftest import ALFWORLD, SOKOBAN, Boards, first
from tests.leaderboard.pages import rows_of, text_of
from tests.leaderboard.table.test_equal import training
from tests.support.board_rows import board_content, board_of, board_row

STATE = State(protocol="v1", panels="sokoban/builtin")


def start() -> FullRow:
    return board_row("20260101_start", {SOKOBAN: [first(20)]}, kind="init", init=None)


START = start().checkpoints[0].model


def trained(entry: str, recipe: str, solved: int, collapsed: int, retention: float) -> FullRow:
    """Three seeds that solve equally many of 100 levels, some of which collapsed."""
    event = EventCount("collapse", collapsed, 3, collapsed / 3, 0.0, 0.56)
    columns = (
        NamedValue("collapse_rate", collapsed / 3),
        NamedValue("retention", retention),
        NamedValue("mismatch_p95", 1e-13),
    )
    found = Stability((0, 1, 2), columns, (), (event,), (), None, None)
    return board_row(
        f"20260101_{entry}", {SOKOBAN: [first(solved)] * 3}, (found, ()), recipe=recipe,
        track="sokoban-standard", init=START,
    )  # fmt: skip


def with_curves(row: FullRow, seed: SeedCurves) -> FullRow:
    """An entry in which each seed trained like this."""
    return replace(row, curves=(seed,) * len(row.checkpoints))


def test_who_leads_by_how_much_and_what_collapsed(boards: Boards) -> None:
    board = boards(trained("a", "sampo", 80, 0, 0.9), trained("b", "cispo", 10, 3, 0.1), start())
    said = text_of(answer(board, STATE))
    assert said.startswith("Sokoban, track sokoban-standard : ")
    assert (
        "SAMPO leads with 80.0% [ 95% CI 71.1" in said
        and ", up from 20.0% before training;" in said
    )
    assert "+70.0 [" in said and "points ahead of CISPO" in said and "tie" not in said
    assert "0 of 3 seeds collapsed (95% CI 0\u201356%)." in said
    assert said.endswith(
        "Checked : replayed, stability: logs, init: fixed. Reproduce it \u00b7 Training curves"
    )
    worse = text_of(answer(boards(trained("b", "cispo", 10, 3, 0.1), start()), STATE))
    assert ", down from 20.0% before training ; it is the only entry of this track" in worse
    same = text_of(answer(boards(trained("b", "cispo", 20, 3, 0.1), start()), STATE))
    assert ", the same as before training;" in same
    assert "Dependable" not in said
    three = [trained(name, name, solved, 0, 0.9) for name, solved in
             (("a", 80), ("b", 79), ("c", 78))]  # fmt: skip
    tied = text_of(answer(boards(*three), STATE))
    assert "No clear leader: a has 80.0% [" in tied and "leads" not in tied
    assert "points ahead of b , a tie; also tied: c ." in tied
    once = replace(three[1], checkpoints=three[1].checkpoints[:1])
    said = text_of(answer(boards(three[0], once), STATE))
    assert "points ahead of b (one seed), a tie." in said
    # Entries of the same recipe are distinguished by their own names.
    twice = [replace(each, recipe="grpo") for each in three]
    assert "ahead of b (GRPO), a tie; also tied: c (GRPO)." in text_of(
        answer(boards(*twice), STATE)
    )


def test_the_summary_has_the_best_method_of_every_task(boards: Boards) -> None:
    three = trained("a", "sampo", 80, 0, 0.9)
    sure = dependable(three, 0.7, 0.3, 0.9)
    alone = board_row("20260101_d", {ALFWORLD: [first(40)]}, recipe="mine", track="alfworld-stress")
    board = boards(sure, trained("b", "cispo", 10, 3, 0.1), alone, start())
    page = summary(board, STATE)
    assert rows_of(page) == [
        ["ALFWorld stress", "mine the only one run", "40.0 30.9\u201349.8", "needs two seeds",
         "of 1 seed, no logs", "tiny-sokoban 408K", "1", "Reproduce"],
        ["Sokoban standard", "SAMPO", "80.0 71.1\u201386.7",
         "70.0 30.0\u201390.0", "0 of 3 0\u201356%", "tiny-sokoban 408K", "2, 1 collapsed",
         "Reproduce"],
    ]  # fmt: skip
    assert 'href="?tab=board&amp;protocol=v1&amp;panels=sokoban%2Fbuiltin"' in page
    # A leader with a single seed has no such number: the best known one is shown with its name.
    one = board_row("20260101_e", {SOKOBAN: [first(90)]}, recipe="gspo", track="sokoban-standard")
    said = text_of(summary(boards(one, sure), STATE))
    assert "70.0 30.0\u201390.0, SAMPO; the leader has one seed" in said
    assert "10.0 5.5\u201317.4 below init" in text_of(
        summary(boards(trained("b", "cispo", 10, 3, 0.1), start()), STATE)
    )
    assert summary(boards(start()), STATE) == ""


def test_a_leader_below_its_init_is_not_called_the_best(boards: Boards) -> None:
    board = boards(trained("a", "sampo", 20, 0, 0.9), trained("b", "cispo", 10, 3, 0.1), start())
    (row,) = rows_of(summary(board, State(protocol="v1")))
    assert row[1] == "none above the init highest: SAMPO"
    better = boards(trained("a", "sampo", 21, 0, 0.9), start())
    (row,) = rows_of(summary(better, State(protocol="v1")))
    assert row[1].startswith("SAMPO")


def test_a_lead_says_what_it_cost(boards: Boards) -> None:
    plain = training({0: 0.2, 2: 0.5, 4: 0.6}, [64] * 4)
    dynamic = training({0: 0.2, 1: 0.3, 2: 0.5, 4: 0.8}, [192] * 4)
    cheap, dear = (trained(name, recipe, solved, 0, 0.9)
                   for name, recipe, solved in (("a", "grpo", 60), ("b", "sampo", 80)))  # fmt: skip
    said = text_of(answer(boards(with_curves(cheap, plain), with_curves(dear, dynamic)), STATE))
    assert "points ahead of GRPO , after 3.0 times as many training episodes (" in said
    # GRPO ends at 60% after 256 episodes; SAMPO was then between 30 (192 episodes) and 50% (384).
    assert "(after equally many: \u221223.3 [" in said
    alike = text_of(answer(boards(with_curves(cheap, plain), with_curves(dear, plain)), STATE))
    assert "training episodes" not in alike


def test_usual_tracks_come_before_stress_and_open_ones() -> None:
    tracks = {"open": 9, "sokoban-stress": 5, "sokoban-standard": 2, "webshop-standard": 3}
    tracks |= {"all-async-4": 7, "sokoban-specialist": 6, "sokoban-sweep-x3": 5}
    order = sorted(tracks, key=lambda name: order_of_track(name, tracks[name]))
    assert order == [
        *("webshop-standard", "sokoban-standard", "sokoban-stress"),
        *("all-async-4", "sokoban-specialist", "sokoban-sweep-x3", "open"),
    ]


def test_places_within_a_track_stand_below_its_name(boards: Boards) -> None:
    other = replace(trained("c", "gspo", 90, 0, 0.9), track="sokoban-stress")
    board = boards(trained("a", "sampo", 80, 0, 0.9), trained("b", "cispo", 10, 3, 0.1), other)

    def order(**asked: Any) -> list[str]:
        found = rows_of(board_page(board, replace(STATE, **asked)))
        return [row[1].split()[0] if len(row) > 1 else row[0] for row in found]

    apart = ["Track sokoban-standard", "a", "b", "Track sokoban-stress", "c"]
    assert order()[:5] == order(sort="sokoban/builtin")[:5] == apart
    # All measures of how good an entry is are compared within a track.
    assert order(sort="retention")[:5] == apart
    assert order(sort="name")[:3] == ["a", "b", "c"]
    assert order(track="sokoban-standard")[:2] == ["a", "b"]


def test_the_first_view_has_the_best_of_every_track(boards: Boards) -> None:
    """For a mean over tasks, tracks that have one come first, whatever their names."""
    one = [trained(f"a{n}", "gspo", n, 0, 0.9) for n in range(31)]
    stress = [replace(trained(f"s{n}", "gspo", n, 0, 0.9), track="sokoban-stress") for n in (1, 2)]
    both = board_row("20260101_b", {SOKOBAN: [first(1)], ALFWORLD: [first(1)]})
    program = board_row("20260101_c", {SOKOBAN: [first(100)]}, kind="policy")
    board = boards(*one, *stress, replace(both, track="all-standard"), program)
    page = board_page(board, State(protocol="v1", panels=default_panels(board, "v1")))
    said = "35 entries, sorted by mean success; showing the first of each track and the references"
    assert said in page

    def names(page: str) -> list[str]:
        return [row[1].split()[0] if len(row) > 1 else row[0] for row in rows_of(page)]

    rows = names(page)
    # Tracks without a mean have one row each.
    assert rows[:4] == ["Track all-standard", "b", "Track sokoban-standard", "a30"]
    assert rows[4:-2] == ["Track sokoban-stress", "s2"]
    reference, program_row = rows[-2:]
    assert reference.startswith("Reference, not ranked") and program_row == "c"
    best = [f"a{n}" for n in range(30, 3, -1)]
    task = names(board_page(board, State(protocol="v1", panels="sokoban/builtin")))
    assert task[:28] == ["Track sokoban-standard", *best]
    assert task[28:-2] == ["Track all-standard", "b", "Track sokoban-stress", "s2", "s1"]


def test_curves_open_with_the_surest_collapse(boards: Boards) -> None:
    def collapsed(entry: str, happened: int, of: int, low: float) -> FullRow:
        row = trained(entry, entry, 0, 0, 0.0)
        assert row.stability is not None
        event = EventCount("collapse", happened, of, happened / of, low, 1.0)
        return replace(row, stability=replace(row.stability, events=(event,)))

    better = [trained(name, name, 80, 0, 0.9) for name in ("a", "b", "c", "d", "e")]
    rows = [collapsed("x", 1, 1, 0.21), collapsed("y", 3, 3, 0.44), collapsed("z", 4, 5, 0.38)]
    board = boards(*better, *rows)
    entries = filled(board, State(tab="curves", protocol="v1")).entries
    assert entries[-1] == "20260101_y"
    assert entries[0] == "20260101_a"


def dependable(row: FullRow, *numbers: float) -> FullRow:
    (panel,) = row.panels
    return replace(row, panels=(replace(panel, dependable=DependableSuccess(*numbers)),))


def test_the_number_to_quote(boards: Boards) -> None:
    row = dependable(trained("a", "sampo", 80, 0, 0.9), 0.5, 0.2, 0.625)
    board = boards(row, trained("b", "cispo", 10, 3, 0.1))
    said = text_of(answer(board, STATE))
    assert "Dependable success : 50.0% [20.0\u201362.5] ; lowest seed 80.0%." in said
    cells = {each[1].split()[0]: each for each in rows_of(board_page(board, STATE))}
    assert cells["a"][3] == "50.0 20.0\u201362.5" and cells["b"][3] == "\u2013"
    assert dependable_of(row, [SOKOBAN.key]) == Interval(0.5, 0.2, 0.625)
    assert dependable_of(row, [SOKOBAN.key, ALFWORLD.key]) is None
    # The mean of two panels, with the means of the bounds: they share their seeds.
    (panel,) = row.panels
    second = replace(panel, task="alfworld", dependable=DependableSuccess(0.3, 0.1, 0.5))
    both = dependable_of(replace(row, panels=(panel, second)), [SOKOBAN.key, ALFWORLD.key])
    assert both is not None
    assert (both.value, both.low, both.high) == pytest.approx((0.4, 0.15, 0.5625))


def test_one_seed_gives_no_number_to_quote(boards: Boards) -> None:
    event = EventCount("collapse", 0, 1, 0.0, 0.0, 0.79)
    found = Stability((0,), (), (), (event,), (), None, None)
    row = board_row("20260101_a", {SOKOBAN: [first(50)]}, (found, ()), recipe="sampo")
    board = boards(row)
    said = text_of(answer(board, STATE))
    assert "Dependable success : not known from one seed." in said
    assert worst_of(row, [SOKOBAN.key]) is None


def test_nobody_has_trained_yet(boards: Boards) -> None:
    said = text_of(answer(boards(start()), STATE))
    assert "No trained entry on Sokoban yet" in said and "start init 20.0%" in said


def test_the_success_of_the_init_is_that_of_its_own_entry(boards: Boards) -> None:
    row = trained("a", "sampo", 80, 0, 0.9)
    assert init_success(boards(row, start()), row, [SOKOBAN.key]) == 0.2
    other = replace(row, init=Model("other", "folder", None, "1" * 64))
    assert init_success(boards(other, start()), other, [SOKOBAN.key]) is None
    assert row.init is not None
    other = replace(row, init=replace(row.init, kind="folder", sha256="1" * 64))
    assert init_success(boards(other, start()), other, [SOKOBAN.key]) is None


def test_another_entry_of_the_init_on_other_panels_takes_nothing_away(boards: Boards) -> None:
    row = trained("a", "sampo", 80, 0, 0.9)
    later = board_row("20260201_more", {ALFWORLD: [first(9)]}, kind="init", init=None)
    later = replace(later, checkpoints=start().checkpoints)
    for entries in ((start(), later), (later, start())):
        board = boards(row, *entries)
        assert init_success(board, row, [SOKOBAN.key]) == 0.2
        found = init_of_entry(board, row, [ALFWORLD.key])
        assert found is not None and found.id == later.id


def test_columns_that_say_nothing_are_not_shown(boards: Boards) -> None:
    board = boards(trained("a", "sampo", 80, 0, 0.9), trained("b", "cispo", 10, 3, 0.1))
    hidden = uninformative(board, "v1", "sokoban/builtin")
    assert {"track", "init", "mismatch_p95", "worst_seed"} <= hidden
    assert not {"collapse_rate", "retention"} & hidden
    names = [column.name for column in chosen(board, STATE)]
    assert names[:3] == ["rank", "name", "sokoban/builtin"] and "track" not in names
    # Columns selected by the user are shown.
    own = State(protocol="v1", panels="sokoban/builtin", columns=("track",))
    assert "track" in [column.name for column in chosen(board, own)]
    # A single entry's track is in the answer, but its drawdown is nowhere else.
    alone = uninformative(boards(trained("a", "sampo", 80, 0, 0.9)), "v1", "sokoban/builtin")
    assert {"track", "init", "badges"} <= alone and "retention" not in alone


def test_the_best_entry_beside_a_published_one_names_its_track(boards: Boards) -> None:
    stress = replace(trained("b", "grpo", 90, 0, 0.9), track="sokoban-stress")
    board = boards(trained("a", "grpo", 80, 0, 0.9), stress)
    said = text_of(board_page(board, STATE))
    # A track designed to break methods does not correspond to the paper's training.
    assert "GRPO 83.90 80.0 sokoban-standard Qwen3-4B-VL-Instruct-RFT" in said


def test_a_recipe_on_no_track_is_as_declared_and_no_best_method(boards: Boards) -> None:
    claimed = replace(trained("a", "cispo", 99, 0, 0.9), track="open")
    board = boards(claimed, trained("b", "grpo", 10, 3, 0.1))
    assert [row[:2] for row in rows_of(summary(board, STATE))] == [
        ["Sokoban standard", "GRPO the only one run"]
    ]
    page = board_page(board, STATE)
    assert "cispo, as declared \u00b7 tiny-sokoban" in text_of(page)
    # The paper's CISPO has no entry here to compare with.
    assert "CISPO 26.02 \u2013 Qwen3-4B" in text_of(page)
    assert "cispo, as declared has 99.0%" in text_of(answer(board, STATE))
    drawn = json.loads(success_chart(board, STATE)["plot"])["data"]["values"]
    assert ("cispo, as declared", "open") in [(each["row"], each["track"]) for each in drawn]
    entry = entry_page(board, State(tab="entry", protocol="v1", entry=claimed.id))
    assert "method cispo, as declared" in text_of(entry)


def test_pictures_of_a_row_say_what_they_show() -> None:
    bar = interval_bar(0.2, 0.4, 0.3, [0.25, 0.35], 0.1)
    assert 'class="seed" d="M34.0 9h0M46.4 9h0"' in bar and bar.count('class="init"') == 1
    assert "30.0%, 95% interval 20.0 to 40.0; before training 10.0; seeds 25.0, 35.0" in bar
    curve = sparkline([Spark(0, (0, 5, 10), (0.2, 0.6, 0.1), 10)], "cispo")
    assert "seed 0: 20.0 to 10.0%, collapsed at update 10" in curve
    assert curve.count('class="cross"') == 1 and sparkline([], "cispo") == ""
    fallen = text_of(collapse_chip(2, 3, (0.2, 0.94), 9, halved=1))
    assert fallen == "2/3 collapsed, 1 halved first at update 9 95% CI 20\u201394%"
    assert "lb-good" in collapse_chip(0, 3, (0.0, 0.56), None)
    assert "lb-good" not in collapse_chip(0, 3, (0.0, 0.56), None, halved=1)
    assert "lb-good" not in collapse_chip(0, 1, (0.0, 0.79), None)
    assert "below init" in below_init_chip(0.2, 0.3)
    assert below_init_chip(0.3, 0.3) == below_init_chip(0.3, None) == ""


def test_holes_name_the_command_and_its_cost(tmp_path: Path) -> None:
    content = board_content([trained("a", "sampo", 80, 0, 0.9)], SOKOBAN)
    runs = (
        StudyRun("sokoban-standard", "grpo", 0, 0.5, None, 8.0),
        StudyRun("sokoban-standard", "grpo", 1, 0.3, 20, 12.0),
    )
    tracks = ("sokoban-standard", "webshop-standard")
    grid = Grid(tracks, ("grpo", "gspo", "sampo"), runs, impossible=(("sampo", tracks[1]),))
    facts = BoardFacts(content.facts.version, content.facts.protocols, (), grid=grid)
    path = tmp_path / PARQUET
    path.write_bytes(parquet_bytes(BoardContent(facts, content.rows)))
    board: Board = load(path)
    assert board.facts.grid == grid
    page = coverage_page(board, State(tab="coverage", protocol="v1"))
    said = text_of(page)
    assert said.startswith("2 of 5 combinations")
    assert "Impossible: sampo on webshop-standard" in said
    assert "40.0 1/2 collapsed" in said and "80.0 0/3 collapsed" in said
    assert (
        "gspo on sokoban-standard has not been run yet; about 10 CPU minutes a seed. For every "
        "seed: arlarena-bench train --track sokoban-standard --recipe gspo --seed 0 "
        "--out runs/gspo-sokoban-standard-s0"
    ) in said
    assert page.count("popover=") == page.count('class="lb-copy"') == 3
    assert "Only methods that this project ships have a row; entries of others are on" in said


def test_a_track_of_several_tasks_has_its_mean_in_the_summary(tmp_path: Path) -> None:
    """40 and 20% on two tasks. Tracks for comparisons have no rows there."""
    both = {ALFWORLD: [first(40)], SOKOBAN: [first(20)]}
    mixed = board_row("20260101_m", both, recipe="grpo", track="all-standard")
    apart = [
        board_row("20260101_s", {SOKOBAN: [first(90)]}, recipe="grpo", track="sokoban-specialist"),
        board_row("20260101_t", both, recipe="sampo", track="all-async-1"),
    ]
    content = board_content([mixed, *apart], ALFWORLD, SOKOBAN)
    keys = (ALFWORLD.key, SOKOBAN.key)
    grid = Grid(("all-standard",), ("grpo",), (), (), (keys,))
    facts = BoardFacts(content.facts.version, content.facts.protocols, (), grid=grid)
    path = tmp_path / PARQUET
    path.write_bytes(parquet_bytes(BoardContent(facts, content.rows)))
    page = summary(load(path), STATE)
    (row,) = rows_of(page)
    assert row[:2] == ["2 tasks all-standard", "GRPO the only one run"]
    assert row[2].startswith("30.0 ")
    assert "panels=built-in&amp;track=all-standard" in page


def test_an_entry_counts_by_the_panels_of_its_track(tmp_path: Path) -> None:
    """Sokoban's own panel is solved by 80%, whatever else was played; both panels by 55%."""
    row = trained("a", "grpo", 80, 0, 0.9)
    (own,) = row.panels
    played = (replace(own, panel="two_boxes", success=0.3), own)
    content = board_content([replace(row, panels=played)], SOKOBAN)
    for panels, shown in (((own.key,), "80.0"), ((played[0].key, own.key), "55.0")):
        grid = Grid((row.track,), ("grpo",), (), (), (panels,))
        facts = BoardFacts(content.facts.version, content.facts.protocols, (), grid=grid)
        path = tmp_path / PARQUET
        path.write_bytes(parquet_bytes(BoardContent(facts, content.rows)))
        said = text_of(coverage_page(load(path), State(tab="coverage", protocol="v1")))
        assert f"GRPO {shown} 0/3 collapsed" in said


def test_a_page_of_three_protocols_covers_all_tracks(tmp_path: Path) -> None:
    """Text and images are two protocols; each track belongs to one, an older protocol has none."""
    text = trained("a", "grpo", 80, 0, 0.9)
    pixels = replace(trained("b", "grpo", 60, 0, 0.9), protocol=PIXELS, track="sokoban-pixels")
    older = replace(trained("c", "grpo", 10, 0, 0.9), protocol="v0")
    content = board_content([text, pixels, older], SOKOBAN)
    (v1,) = content.facts.protocols
    grid = Grid(("sokoban-pixels", "sokoban-standard"), ("grpo",), ())
    protocols = tuple(replace(v1, name=name) for name in ("v1", PIXELS, "v0"))
    facts = BoardFacts(content.facts.version, protocols, (), grid=grid)
    path = tmp_path / PARQUET
    path.write_bytes(parquet_bytes(BoardContent(facts, content.rows)))
    board = load(path)
    for protocol in ("", "v1", PIXELS):
        page = coverage_page(board, State(tab="coverage", protocol=protocol))
        assert "GRPO 60.0 0/3 collapsed 80.0 0/3 collapsed" in text_of(page)
        assert f"tab=entry&amp;protocol={PIXELS}&amp;entry={pixels.id}" in page
        assert f"tab=entry&amp;protocol=v1&amp;entry={text.id}" in page
    then = text_of(coverage_page(board, State(tab="coverage", protocol="v0")))
    assert "GRPO + " in then and "10.0 0/3 collapsed" in then
    assert "Built with protocols v1 and pixels-1." in text_of(footer(board))
    assert choices_of(board, "v1")["protocol"] == [
        ("v1: the standard", "v1"),
        ("pixels-1: vision-language models", PIXELS),
        ("v0", "v0"),
    ]


def test_a_later_entry_with_fewer_seeds_hides_none(tmp_path: Path) -> None:
    row = trained("a", "grpo", 80, 0, 0.9)
    one = board_row("20260102_b", {SOKOBAN: [first(10)]}, track="sokoban-standard")
    content = board_content([row, one, replace(row, id="20260103_c", stability=None)], SOKOBAN)
    grid = Grid(("sokoban-standard",), ("grpo",), ())
    facts = BoardFacts(content.facts.version, content.facts.protocols, (), grid=grid)
    page = coverage_page(
        board_of(tmp_path, BoardContent(facts, content.rows)), State(tab="coverage", protocol="v1")
    )
    assert "GRPO 80.0 0/3 collapsed" in text_of(page) and "entry=20260101_a" in page


def test_a_cell_shows_the_study_where_it_has_more_seeds_than_the_entry(tmp_path: Path) -> None:
    content = board_content([trained("a", "grpo", 80, 0, 0.9)], SOKOBAN)
    for seeds, said in ((3, "80.0 0/3 collapsed"), (4, "50.0 0/4 collapsed entry: 3 seeds")):
        runs = tuple(
            StudyRun("sokoban-standard", "grpo", seed, 0.5, None, 8.0) for seed in range(seeds)
        )
        grid = Grid(("sokoban-standard",), ("ppo", "grpo"), runs)
        facts = BoardFacts(content.facts.version, content.facts.protocols, (), grid=grid)
        path = tmp_path / PARQUET
        path.write_bytes(parquet_bytes(BoardContent(facts, content.rows)))
        found = text_of(coverage_page(load(path), State(tab="coverage", protocol="v1")))
        # Tracks with runs come first.
        assert f"method sokoban standard GRPO {said} PPO +" in found
