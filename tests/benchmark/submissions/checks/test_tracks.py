"""A log that claims a track must match it, and all seeds of an entry have the same track."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from baselines.tracks import registry
from benchmark.cli.from_baselines import method_fault, rate_fault, train_command
from benchmark.submissions.check import check_submission, read_accepted
from benchmark.submissions.checks.context import Context
from benchmark.submissions.checks.tracks import track_of
from benchmark.track_schema import Track
from leaderboard.board.build import shown_of
from tasks.seeding import sha256_text
from tests.benchmark.submissions.conftest import Copies
from tests.support.submissions.on_tracks import TRACK, Change, on_track
from tests.support.submissions.small import INITS, SEEDS, Copy
from tests.support.training.logs import Line
from tests.support.training.small_track import small


def problems(copy: Copy, *tracks: Track) -> list[str]:
    known = {track.name: track for track in tracks}
    context = Context(
        INITS, replay=False, tracks=known, method_fault=method_fault, rate_fault=rate_fault
    )
    verdict = check_submission(copy.folder, context)
    return [finding.text for finding in verdict.findings]


def test_seeds_of_one_track_are_accepted_and_their_entry_is_on_it(copies: Copies) -> None:
    copy = on_track(copies("trained"))
    assert problems(copy, TRACK) == []
    assert track_of(read_accepted(copy.folder)) == TRACK.claim


def test_entries_without_a_claim_are_open(copies: Copies) -> None:
    for name in ("trained", "policy"):
        copy = copies(name)
        assert problems(copy, TRACK) == []
        assert track_of(read_accepted(copy.folder)) is None


def changed(part: str, name: str, value: Any) -> Change:
    return lambda line: line["configuration"][part].update({name: value})


def test_one_changed_setting_is_a_finding_with_both_values(copies: Copies) -> None:
    copy = on_track(copies("trained"), changed("kl", "coef", 0.5))
    found = problems(copy, TRACK)
    assert found == [
        f"training/s{seed}.jsonl.zst, line 1, configuration: claims track small, but "
        "kl.coef is 0.5, the track has 0.01; send the log exactly as written by the "
        "trainer"
        for seed in SEEDS
    ]


@pytest.mark.parametrize("first", [True, False])
def test_a_setting_that_is_given_again_under_a_dotted_name_is_a_finding(
    first: bool, copies: Copies
) -> None:
    """The comparison flattens names: the trainer's own setting must not be hidden by another."""

    def own(line: Line) -> None:
        line |= {"recipe": "ranked", "plugins": {"rank.py": "a" * 64}}
        line["configuration"]["kl"]["coef"] = 0.5
        pinned = {"kl.coef": 0.01}
        nested = line["configuration"]
        line["configuration"] = {**pinned, **nested} if first else {**nested, **pinned}

    copy = on_track(copies("trained"), own)
    copy.about(lambda about: about["method"].update(recipe="ranked"))
    found = problems(copy, TRACK)
    said = "claims track small, but kl.coef is a single name with a dot: settings are nested; "
    for seed in SEEDS:
        assert any(f"training/s{seed}.jsonl.zst, line 1, configuration: {said}" in f for f in found)


def test_a_method_that_is_not_its_recipe_is_a_finding(copies: Copies) -> None:
    copy = on_track(copies("trained"), changed("clipping", "clip_high", 0.9))
    found = problems(copy, TRACK)
    assert found == [
        f"training/s{seed}.jsonl.zst, line 1, recipe: its recipe is grpo, but "
        "clipping.clip_high is 0.9, and that recipe has 0.2; train the recipe as the "
        "track does, under its name; another method needs another"
        for seed in SEEDS
    ]


@pytest.mark.parametrize(("tuned", "accepted"), [(1e-4, True), (1e-2, False)])
def test_a_rate_of_the_grid_that_was_not_tuned_is_a_finding(
    tuned: float, accepted: bool, copies: Copies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training at every rate and submitting the best would be unfair to those who may not."""
    monkeypatch.setattr(registry, "RESULTS", tmp_path)
    (tmp_path / TRACK.name).mkdir()
    rates = {"track": TRACK.sha256, "rates": {"grpo": tuned}}
    (tmp_path / TRACK.name / registry.RATES).write_text(yaml.safe_dump(rates))
    found = problems(on_track(copies("trained")), TRACK)
    assert found == [
        f"training/s{seed}.jsonl.zst, line 1, recipe: its learning rate is 0.0001, but the track's "
        "for grpo is 0.01; train the recipe as the track does, under its name; another method "
        "needs another"
        for seed in (() if accepted else SEEDS)
    ]


def test_a_recipe_of_another_name_has_the_method_that_it_says(copies: Copies) -> None:
    def own(line: Line) -> None:
        line["recipe"] = "wide_grpo"
        line["configuration"]["clipping"]["clip_high"] = 0.9

    copy = on_track(copies("trained"), own)
    copy.about(lambda about: about["method"].update(recipe="wide_grpo"))
    assert problems(copy, TRACK) == []


def test_a_custom_recipe_with_the_choices_of_a_shipped_one_is_a_finding(copies: Copies) -> None:
    """Another name would allow its own learning rate, next to that recipe's runs."""
    copy = on_track(copies("trained"), lambda line: line.update(recipe="steady"))
    copy.about(lambda about: about["method"].update(recipe="steady"))
    fix = "train the recipe as the track does, under its name; another method needs another"
    assert problems(copy, TRACK) == [
        f"training/s{seed}.jsonl.zst, line 1, recipe: its recipe steady has the four choices of "
        f"grpo: call it that; {fix}"
        for seed in SEEDS
    ]


def test_a_custom_recipe_of_known_choices_has_no_other_settings(copies: Copies) -> None:
    def own(line: Line) -> None:
        line["recipe"] = "steady"
        line["configuration"]["advantage"]["note"] = "verified"

    copy = on_track(copies("trained"), own)
    copy.about(lambda about: about["method"].update(recipe="steady"))
    found = problems(copy, TRACK)
    assert len(found) == 2
    assert "the log's configuration is not valid in this version (advantage" in found[0]


@pytest.mark.parametrize("name", ["GRPO", "gr-po", "GSP0", "dapo-grpo"])
def test_a_custom_recipe_is_not_called_like_a_shipped_one(name: str, copies: Copies) -> None:
    """The board would show it with the shipped recipe's name and explanation."""

    def own(line: Line) -> None:
        line["recipe"] = name
        line["configuration"]["advantage"] = {"name": "anything"}

    copy = on_track(copies("trained"), own)
    copy.about(lambda about: about["method"].update(recipe=name))
    found = problems(copy, TRACK)
    assert len(found) == 2
    assert f"line 1, recipe: its recipe {name} reads like the shipped " in found[0]


@pytest.mark.parametrize("dimension", ["advantage", "clipping", "learner"])
def test_a_choice_that_is_neither_shipped_nor_of_a_plugin_is_a_finding(
    dimension: str, copies: Copies
) -> None:
    """Nothing would identify the code behind the name, or show that all seeds use the same."""

    def own(line: Line) -> None:
        line["recipe"] = "rank"
        line["configuration"][dimension] = {"name": "invented" * 9, "task_normalized": False}

    copy = on_track(copies("trained"), own)
    copy.about(lambda about: about["method"].update(recipe="rank"))
    found = problems(copy, TRACK)
    assert len(found) == len(SEEDS)
    assert f"line 1, recipe: its recipe rank has the {dimension} inventedinv" in found[0]
    assert "which is not shipped, and the log has no hash of its code (for a class" in found[0]
    assert "invented" * 9 not in found[0]


def test_a_method_that_this_program_does_not_know_is_a_finding(copies: Copies) -> None:
    copy = on_track(copies("trained"), changed("clipping", "clip_low", "wide"))
    found = problems(copy, TRACK)
    assert len(found) == 2
    assert "line 1, recipe: the log's configuration is not valid in this version" in found[0]


def test_a_method_of_plugins_is_taken_if_all_seeds_have_the_same_code(copies: Copies) -> None:
    def own(line: Line) -> None:
        line |= {"recipe": "ranked", "plugins": {"rank.py": "a" * 64}}
        line["configuration"]["advantage"] = {"name": "rank"}

    copy = on_track(copies("trained"), own)
    copy.about(lambda about: about["method"].update(recipe="ranked"))
    context = Context(INITS, replay=False)
    check_submission(copy.folder, context)
    assert context.notes[0] == (
        "the code of the plug-ins, which is not sent: rank.py (SHA-256 aaaaaaaaaaaa...); read it "
        "before the entry is merged"
    )
    assert problems(copy, TRACK) == []
    copy.log(lambda lines: lines[0]["plugins"].update({"rank.py": "b" * 64}), SEEDS[1])
    (found,) = problems(copy, TRACK)
    assert found == (
        f"training/s{SEEDS[1]}.jsonl.zst, line 1, plugins: was trained with other plug-ins, or "
        f"other code of them, than training/s{SEEDS[0]}.jsonl.zst; send seeds that were trained "
        "with the same code"
    )


def ranked(**parts: Any) -> Change:
    """A plug-in's method, with some changed parts of its configuration."""

    def change(line: Line) -> None:
        line |= {"recipe": "ranked", "plugins": {"rank.py": "a" * 64}}
        line["configuration"].update(parts)

    return change


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({}, "its recipe ranked has the four choices of grpo, and names nothing that a plug-in"),
        ({"learner": None}, "its recipe ranked has the four choices of grpo, and names nothing"),
        ({"advantage": {"name": "rank"}, "clipping": 5}, "configuration is not valid in this ver"),
        ({"learner": "a free text"}, "the log's configuration is not valid in this version"),
        ({"advantage": {"name": "<b>verified</b>"}}, "advantage.name is not a plain name: "),
        ({"learner": {"name": "re-run by us"}}, "learner.name is not a plain name: letters, digit"),
    ],
)
def test_a_plugin_excuses_only_choices_of_its_own(
    parts: dict[str, Any], said: str, copies: Copies
) -> None:
    """An invented hash used to turn a shipped method, or any text, into a custom method."""
    copy = on_track(copies("trained"), ranked(**parts))
    copy.about(lambda about: about["method"].update(recipe="ranked"))
    found = problems(copy, TRACK)
    assert len(found) == 2
    assert all(said in text for text in found), found


@pytest.mark.parametrize("name", ["rank.py", "rank", "package.rank"])
def test_a_check_and_a_row_of_the_board_run_no_code_of_an_entry(
    name: str, copies: Copies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even if Python would find it under the name in the log."""
    place, ran = tmp_path / "here", tmp_path / "ran"
    (place / "package").mkdir(parents=True)
    for file in ("rank.py", "package/__init__.py", "package/rank.py"):
        (place / file).write_text(f"open({str(ran)!r}, 'w').close()\n")
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    code = sha256_text((place / "rank.py").read_text())

    def change(line: Line) -> None:
        ranked(advantage={"name": "rank"}, learner={"name": "rank"})(line)
        line["plugins"] = {name: code}

    copy = on_track(copies("trained"), change)
    copy.about(lambda about: about["method"].update(recipe="ranked"))
    tracks = {TRACK.name: TRACK}
    context = Context(INITS, tracks=tracks, method_fault=method_fault, rate_fault=rate_fault)
    verdict = check_submission(copy.folder, context)
    assert verdict.accepted and verdict.entry is not None
    row = shown_of(verdict, verdict.entry, {}, train_command).row
    assert row.plugins == (name,)
    assert "training needs the code of its plug-ins" in row.checkpoints[0].commands[0]
    assert not ran.exists()


def test_a_custom_learner_is_a_method_of_its_own(copies: Copies) -> None:
    copy = on_track(copies("trained"), ranked(learner={"name": "early_turns", "turns": 2}))
    copy.about(lambda about: about["method"].update(recipe="ranked"))
    assert problems(copy, TRACK) == []


def test_a_shipped_recipe_with_plugins_is_a_finding(copies: Copies) -> None:
    """Its name and choices state what was trained, but a plug-in can do anything else."""
    copy = on_track(copies("trained"), lambda line: line.update(plugins={"rank.py": "a" * 64}))
    assert problems(copy, TRACK) == [
        f"training/s{seed}.jsonl.zst, line 1, recipe: its recipe is the shipped grpo, but it was "
        "trained with plug-ins; train the recipe as the track does, under its name; another method "
        "needs another"
        for seed in SEEDS
    ]


def test_many_changed_settings_are_counted(copies: Copies) -> None:
    extra = {f"setting{number}": number for number in range(30)}
    copy = on_track(copies("trained"), lambda line: line["configuration"].update(extra))
    found = problems(copy, TRACK)
    assert len(found) == 22
    assert "claims track small, but 30 settings differ from it; " in found[10]


def test_another_init_is_a_finding(copies: Copies) -> None:
    other = TRACK.model_copy(update={"init": TRACK.init.model_copy(update={"sha256": "0" * 64})})
    copy = on_track(copies("trained"), lambda line: line.update(track=other.claim.model_dump()))
    found = problems(copy, other)
    assert len(found) == 2
    assert "but init is tiny-sokoban (init, SHA-256 " in found[0]
    assert f"the track has tiny-sokoban, SHA-256 {'0' * 12}..." in found[0]


def test_a_track_that_does_not_exist_is_a_finding_with_near_matches(copies: Copies) -> None:
    copy = on_track(copies("trained"), lambda line: line["track"].update(name="smal"))
    found = problems(copy, TRACK)
    assert found[0] == (
        "training/s0.jsonl.zst, line 1, track: claims track smal, which does not "
        "exist; did you mean small?; train on a track listed by `arlarena-bench "
        "tracks`"
    )
    assert "which does not exist; there are none; train" in problems(copy)[0]


def test_a_track_that_was_changed_since_is_a_finding(copies: Copies) -> None:
    copy = on_track(copies("trained"))
    newer = small({"settings": {"kl": {"coef": 0.5}}})
    found = problems(copy, newer)
    assert found[0] == (
        "training/s0.jsonl.zst, line 1, track: claims track small with SHA-256 "
        f"{TRACK.sha256[:12]}..., but the current one has {newer.sha256[:12]}...: it has "
        "changed since; train on the current version of the track"
    )


@pytest.mark.parametrize("other", [None, "another"])
def test_seeds_of_several_tracks_are_a_finding(other: str | None, copies: Copies) -> None:
    second = TRACK.model_copy(update={"name": "another"})
    claim = second.claim.model_dump() if other else None
    copy = on_track(copies("trained"), lambda line: line.update(track=claim), seed=1)
    (found,) = problems(copy, TRACK, second)
    where = f"another ({second.sha256[:12]}...)" if other else "open"
    assert found.startswith(
        f"training/s1.jsonl.zst, line 1, track: is on track {where}, but training/s0.jsonl.zst is "
        f"on small ({TRACK.sha256[:12]}...); "
    )
    assert track_of(read_accepted(copy.folder)) is None
