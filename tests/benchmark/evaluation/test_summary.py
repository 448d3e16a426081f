"""Summaries: every number by hand, with missing parts, and with records in any order."""

import json
import random
from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.evaluation.evaluate import Plan
from benchmark.evaluation.manifest import Shard
from benchmark.evaluation.protocol import SamplingOverrides
from benchmark.evaluation.records import EpisodeRecord
from benchmark.evaluation.summarize import expected_records, summarize
from benchmark.evaluation.summary import MeanInterval, PanelSummary, summary_json
from benchmark.stats.intervals import clustered_wilson, mean_interval, wilson
from tasks.errors import UserError
from tests.support.runs.factories import TASKS, make_manifest, make_protocol, make_record, make_turn

ONCE = make_manifest(make_protocol(episodes=4))
THRICE = make_manifest(make_protocol(episodes=2, repeats=3))


def summary_of(records: list[EpisodeRecord]) -> PanelSummary:
    (panel,) = summarize(ONCE, records, TASKS).panels
    return panel


def four_records() -> list[EpisodeRecord]:
    cut = make_turn("<think>", None, False, False, 0.0, "length", 300, 512)
    barred = make_turn(action_ok=False, prompt_tokens=200, response_tokens=30)
    return [
        make_record("e0", category="10", turns=[make_turn(), make_turn(reward=10.9)]),
        make_record("e1", success=False, category="2", turns=[cut, barred, make_turn()]),
        make_record("e2", category="2", turns=2, score=0.5),
        make_record("e3", success=False, category="10", turns=[cut], error="ValueError: broken"),
    ]


def test_a_complete_panel_is_computed_by_hand() -> None:
    summary = summarize(ONCE, four_records(), TASKS)
    (panel,) = summary.panels
    assert (summary.complete, summary.fingerprint) == (True, ONCE.fingerprint)
    assert (panel.task, panel.panel, panel.fingerprint) == (
        "sokoban",
        "builtin",
        ONCE.panels[0].fingerprint,
    )
    assert (panel.expected, panel.records, panel.errors) == (4, 4, 1)
    # 2 of 4: (1/2 +- z sqrt(1/16 + z^2/64) / (1 + z^2/4)), see test_statistics.
    assert asdict(panel.success) == pytest.approx(
        {"value": 0.5, "low": 0.150039, "high": 0.849961, "episodes": 4}, abs=1e-6
    )
    # Scores 1, 0, 1/2, 0: mean 3/8, s^2 = (25 + 9 + 1 + 9) / 64 / 3, t(3) s / 2 = 0.761740.
    assert panel.score.value == 0.375
    assert panel.score.high - panel.score.value == pytest.approx(0.761740, abs=1e-6)
    # Returns: 10.8; -0.2 - 0.2; -0.2; 0 - 0.1.
    assert panel.episode_return.value == pytest.approx((10.8 - 0.4 - 0.2 - 0.1) / 4)
    assert (panel.score_name, panel.score_unit) == ("reward", "points")
    # Eight turns: two truncated ones violate the format, and three actions are invalid.
    assert (panel.format_valid, panel.action_valid, panel.truncated) == (6 / 8, 5 / 8, 2 / 8)
    assert panel.turns == 8 / 4
    assert panel.prompt_tokens == (5 * 100 + 200 + 2 * 300) / 8
    assert panel.response_tokens == (5 * 10 + 30 + 2 * 512) / 8
    assert panel.total_tokens == 1300 + 1104
    assert panel.turn_counts == ((1, 0, 1), (2, 2, 0), (3, 0, 1))
    assert panel.invalid_by_turn == ((1, 4, 2), (2, 3, 1), (3, 1, 0))


def test_categories_that_are_numbers_stand_in_numerical_order() -> None:
    panel = summary_of(four_records())
    assert panel.category_name == "optimal length"
    assert [c.category for c in panel.categories] == ["2", "10"]
    expected = wilson(1, 2)
    for category in panel.categories:
        assert category.success == MeanInterval(0.5, expected.low, expected.high, 2)


@pytest.mark.parametrize(
    ("categories", "order"),
    [
        (["b", "a", "10", "9"], ["10", "9", "a", "b"]),
        (["1.5", "-2", "10", "9"], ["-2", "1.5", "9", "10"]),
        (["nan", "3", "20", "1"], ["1", "20", "3", "nan"]),
    ],
)
def test_other_categories_stand_in_alphabetical_order(
    categories: list[str], order: list[str]
) -> None:
    records = [make_record(f"e{n}", category=name) for n, name in enumerate(categories)]
    assert [c.category for c in summary_of(records).categories] == order


def test_repeats_are_clustered_by_episode() -> None:
    # e0: 3 of 3, e1: 1 of 3; the rate is the mean over episodes, then over repeats: 2/3.
    outcomes = {"e0": (True, True, True), "e1": (False, True, False)}
    records = [
        make_record(episode, won, repeat=repeat, turns=repeat + 1)
        for episode, plays in outcomes.items()
        for repeat, won in enumerate(plays)
    ]
    (panel,) = summarize(THRICE, records, TASKS).panels
    interval = clustered_wilson([3, 1], [3, 3])
    assert panel.success == MeanInterval(interval.value, interval.low, interval.high, 2)
    assert panel.success.value == pytest.approx(2 / 3)
    # Scores: episode means 1 and 1/3; half width t(1) sqrt(2/9) / sqrt(2) = 12.7062 / 3.
    assert panel.score.value == pytest.approx(2 / 3)
    assert panel.score.high == pytest.approx(2 / 3 + 12.7062047 / 3, abs=1e-6)
    assert (panel.expected, panel.records, panel.turns) == (6, 6, 2)
    assert panel.turn_counts == ((1, 1, 1), (2, 2, 0), (3, 1, 1))
    assert [c.success for c in panel.categories] == [panel.success]


def test_an_incomplete_run_is_summarized_over_what_is_there() -> None:
    records = [make_record("e0", True, repeat=repeat) for repeat in range(3)]
    records.append(make_record("e1", False, repeat=2))
    summary = summarize(THRICE, records, TASKS)
    (panel,) = summary.panels
    assert not summary.complete
    assert (panel.expected, panel.records) == (6, 4)
    # Every episode counts once, not every play: 1/2, not 3/4.
    assert (panel.success.value, panel.success.episodes) == (0.5, 2)
    assert panel.score.value == 0.5


def test_a_panel_without_records_has_defined_numbers() -> None:
    manifest = make_manifest(make_protocol(), make_protocol("webshop", "small", episodes=1))
    summary = summarize(manifest, [make_record("e0")], TASKS)
    empty = summary.panels[1]
    assert not summary.complete
    assert (empty.task, empty.panel, empty.expected, empty.records) == ("webshop", "small", 1, 0)
    assert empty.success == MeanInterval(0.0, 0.0, 1.0, 0)
    assert empty.score == empty.episode_return == MeanInterval(0.0, 0.0, 0.0, 0)
    assert (empty.format_valid, empty.turns, empty.total_tokens) == (0.0, 0.0, None)
    assert (empty.categories, empty.turn_counts, empty.invalid_by_turn) == ((), (), ())


def test_an_error_is_a_failure_whatever_the_record_says() -> None:
    honest = make_record("e0", error="EngineError: gone", turns=2)
    forged = honest.model_copy(update={"success": True, "score": -1.5})
    panel = summary_of([forged])
    assert (panel.errors, panel.success.value, panel.score.value) == (1, 0.0, -1.5)
    assert panel.turn_counts == ((2, 0, 1),)


def test_a_world_that_could_not_be_set_up_has_no_turns() -> None:
    panel = summary_of([make_record("e0", turns=0, error="OSError: no world")])
    assert panel.turn_counts == ((0, 0, 1),)
    assert (panel.format_valid, panel.action_valid, panel.truncated) == (0.0, 0.0, 0.0)
    assert panel.prompt_tokens is None


def test_tokens_are_none_where_they_are_not_counted() -> None:
    uncounted = make_turn(prompt_tokens=None, response_tokens=None)
    panel = summary_of([make_record("e0", turns=[uncounted])])
    assert (panel.prompt_tokens, panel.response_tokens, panel.total_tokens) == (None, None, None)
    # Partly counted: means over the counted plays, and no total, which would look complete.
    panel = summary_of([make_record("e0", turns=[uncounted, make_turn()])])
    assert (panel.prompt_tokens, panel.response_tokens, panel.total_tokens) == (100, 10, None)


def test_the_order_of_records_moves_nothing() -> None:
    outcomes = random.Random(1)
    manifest = make_manifest(make_protocol(episodes=40, repeats=3))
    records = [
        make_record(
            f"e{episode}",
            outcomes.random() < 0.5,
            repeat=repeat,
            category=str(episode % 7),
            turns=outcomes.randint(1, 9),
            score=outcomes.random(),
        )
        for episode in range(40)
        for repeat in range(3)
    ]
    text = summary_json(summarize(manifest, records, TASKS))
    for seed in range(5):
        shuffled = random.Random(seed).sample(records, len(records))
        assert summary_json(summarize(manifest, shuffled, TASKS)) == text


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=30))
def test_repeats_that_agree_give_the_summary_of_single_plays(
    plays: list[tuple[int, bool]],
) -> None:
    outcomes = dict(plays)
    once = [make_record(f"e{n}", won) for n, won in outcomes.items()]
    again = [make_record(f"e{n}", won, repeat=1) for n, won in outcomes.items()]
    single = summarize(make_manifest(make_protocol(episodes=10)), once, TASKS).panels[0]
    twice = make_manifest(make_protocol(episodes=10, repeats=2))
    double = summarize(twice, once + again, TASKS).panels[0]
    assert double.success == single.success
    assert double.score == single.score
    assert double.episode_return == single.episode_return


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (make_record("e9", panel="two_boxes"), "sokoban/two_boxes, episode e9, repeat 0: the run"),
        (make_record("e9", repeat=1), "sokoban/builtin, episode e9, repeat 1: the run does not"),
        (make_record("e0"), "has two records"),
        (make_record("e9"), "the panel has only 4 episodes"),
    ],
)
def test_records_that_are_not_the_runs_are_refused(record: EpisodeRecord, message: str) -> None:
    records = [make_record(f"e{n}") for n in range(4)]
    with pytest.raises(UserError, match=message):
        summarize(ONCE, [*records, record], TASKS)


def test_without_task_facts_those_of_the_installed_task_are_used() -> None:
    (panel,) = summarize(ONCE, four_records()).panels
    assert panel.category_name == "optimal length"
    with pytest.raises(UserError, match="unknown task"):
        summarize(make_manifest(make_protocol("chess")), [])


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3, 7, 600])
def test_shards_expect_what_they_play(count: int) -> None:
    panels = [("sokoban", "builtin"), ("sokoban", "two_boxes")]
    total = dict.fromkeys(panels, 0)
    whole = Plan.of(panels, SamplingOverrides(repeats=3))
    for index in range(1, count + 1):
        shard = Shard(index=index, count=count)
        plan = replace(whole, shard=shard)
        played = [job.key[:2] for job in plan.jobs()]
        expected = expected_records(make_manifest(*plan.protocols, shard=shard))
        assert expected == {panel: played.count(panel) for panel in panels}
        total = {panel: total[panel] + expected[panel] for panel in panels}
    assert total == {panels[0]: 3 * 256, panels[1]: 3 * 128}


def test_a_shards_summary_is_complete_when_its_part_is_there() -> None:
    shard = make_manifest(make_protocol(episodes=5), shard=Shard(index=2, count=2))
    records = [make_record("e1"), make_record("e3", False)]
    summary = summarize(shard, records, TASKS)
    assert (summary.complete, summary.panels[0].expected) == (True, 2)
    assert summary.panels[0].success.value == 0.5
    assert not summarize(shard, records[:1], TASKS).complete


def test_the_json_is_exact_sorted_and_ends_its_last_line() -> None:
    summary = summarize(ONCE, four_records(), TASKS)
    text = summary_json(summary)
    assert text.startswith('{\n  "complete": true,\n  "fingerprint": "')
    assert text.endswith("}\n")
    assert list(json.loads(text)) == sorted(json.loads(text))
    assert f'"high": {summary.panels[0].success.high!r}' in text
    assert json.loads(text)["panels"][0]["success"] == asdict(summary.panels[0].success)


def test_one_value_has_an_interval_without_width() -> None:
    panel = summary_of([make_record("e0", score=0.25)])
    interval = mean_interval([0.25])
    assert panel.score == MeanInterval(0.25, interval.low, interval.high, 1)
    assert panel.score.low == panel.score.high == 0.25


def test_pass_at_k_of_a_panel_and_its_categories() -> None:
    protocol = make_protocol(episodes=2, repeats=4)
    # One episode solved in two of four plays, another in none.
    records = [
        make_record("e0", success=repeat < 2, repeat=repeat, category="1") for repeat in range(4)
    ] + [make_record("e1", success=False, repeat=repeat, category="2") for repeat in range(4)]
    (panel,) = summarize(make_manifest(protocol), records).panels
    assert [passed.k for passed in panel.pass_at] == [2, 4]
    assert panel.success.value == 0.25
    # Five of the six pairs of plays of the first episode contain a success.
    assert panel.pass_at[0].success.value == pytest.approx(5 / 12)
    assert panel.pass_at[1].success.value == 0.5
    assert [category.solved_in(2) for category in panel.categories] == pytest.approx([5 / 6, 0])
    assert panel.categories[0].solved_in(3) is None


def test_pass_at_k_counts_the_plays_that_every_episode_has() -> None:
    protocol = make_protocol(episodes=2, repeats=3)
    records = [make_record("e0", repeat=repeat) for repeat in range(3)]
    assert [p.k for p in summarize(make_manifest(protocol), records).panels[0].pass_at] == [2, 3]
    records.append(make_record("e1", repeat=0))
    assert summarize(make_manifest(protocol), records).panels[0].pass_at == ()
