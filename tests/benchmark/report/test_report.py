"""The report's text: its content, that nothing in it becomes markup by accident, and its size."""

import base64
import dataclasses
import hashlib
import json
import random
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from typing import Any

import pytest

from benchmark.engines.core.scripted import ScriptedEngine
from benchmark.evaluation.manifest import Shard
from benchmark.evaluation.protocol import THINKING, SamplingOverrides
from benchmark.evaluation.records import EpisodeRecord, short_hash
from benchmark.evaluation.summarize import summarize
from benchmark.report import report_html
from benchmark.report.episodes import MAX_TEXT, pack_episodes
from tasks.errors import UserError
from tests.support.runs.report_runs import INJECTION, ErringEngine, Run, make_run, with_error

VOID = {"meta", "link", "input", "br"}
INLINE = {"b", "span", "code", "small", "a", "text"}


class Page(HTMLParser):
    """Elements, texts and the content of the page, and whether its tags are balanced."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.contents: dict[str, list[str]] = {}
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.text += "" if tag in INLINE else " "
        if tag not in VOID:
            self._open.append(tag)
            self.contents.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("script", "style"):
            self.contents[self._open[-1]][-1] += data
        else:
            self.text += data


def words(html: str) -> str:
    return " ".join(Page(html).text.split()).replace("\u202f", " ")


def unpacked(html: str) -> dict[str, Any]:
    packed = re.search(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', html)
    assert packed
    content: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(packed[1])))
    return content


def with_records(run: Run, records: list[EpisodeRecord]) -> Run:
    return Run(run.manifest, records, summarize(run.manifest, records), run.sessions)


@pytest.fixture(scope="module")
def model() -> Run:
    return make_run(engine=ErringEngine(0.8))


@pytest.fixture(scope="module")
def page(model: Run) -> str:
    return report_html(*model.arguments)


@pytest.fixture(scope="module")
def small() -> Run:
    return make_run(("builtin", "two_boxes"), episodes=6)


def test_the_page_says_what_a_reader_has_to_know(model: Run, page: str) -> None:
    text = words(page)
    panel = model.summary.panels[0]
    solved = sum(record.success for record in model.records)
    assert panel.success.value == solved / 256
    assert f"{100 * solved / 256:.1f}%" in text
    assert f"95% interval {100 * panel.success.low:.1f}% to {100 * panel.success.high:.1f}%" in text
    for expected in (
        "tiny-sokoban",
        "sokoban/builtin",
        "complete run",
        "standard protocol v1",
        "Wilson interval over 256 episodes",
        "Score: reward",
        "points",
        "1,200 tokens/s, engine idle 1.2%",
        "2025-01-01 12:00 UTC",
        "transformers · float32 · cpu",
        "arlarena-bench eval --model tiny-sokoban --task sokoban",
        model.manifest.fingerprint,
        model.manifest.panels[0].fingerprint,
        "5f" * 32,
        "256 episodes replayed, none with differences",
        "torch 2.13.0",
    ):
        assert expected in text, expected
    for absent in (
        "Incomplete",
        "episodes ended in an error",
        "Not the standard protocol",
        "do not replay",
    ):
        assert absent not in text


@pytest.mark.slow
def test_the_same_arguments_give_the_same_bytes(model: Run, page: str) -> None:
    assert report_html(*model.arguments) == page
    program = (
        "import hashlib; from tests.support.runs.report_runs import ErringEngine, make_run\n"
        "from benchmark.report import report_html\n"
        "html = report_html(*make_run(engine=ErringEngine(0.8)).arguments)\n"
        "print(hashlib.sha256(html.encode()).hexdigest())"
    )
    # Another process has another Python hash seed.
    found = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert found.stdout.strip() == hashlib.sha256(page.encode()).hexdigest(), found.stderr


def test_nothing_is_loaded_and_only_the_page_s_own_code_may_run(page: str) -> None:
    content = Page(page)
    for tag, attributes in content.elements:
        assert not any(name.startswith("on") or name == "style" for name in attributes), tag
        assert "src" not in attributes
        target = attributes.get("href")
        assert target is None or target.startswith("#") or (tag, target) == ("link", "data:,")
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    policy = next(
        attributes["content"] or ""
        for tag, attributes in content.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    (style,) = content.contents["style"]
    data, script = content.contents["script"]
    assert rules.pop("default-src") == "'none'"
    assert rules.pop("img-src") == "data:"
    assert (
        rules.pop("base-uri") == rules.pop("form-action") == rules.pop("trusted-types") == "'none'"
    )
    assert rules.pop("require-trusted-types-for") == "'script'"
    for name, text in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules.pop(name) == f"'sha256-{digest}'"
    assert not rules
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", data)


def test_a_full_run_is_small(page: str) -> None:
    assert len(page.encode()) < 300_000


@pytest.mark.slow
def test_long_responses_of_a_full_run_stay_below_2_mb() -> None:
    run = make_run(engine=ScriptedEngine("random"))
    rng = random.Random(0)
    # Words as frequent as in a natural language: the k-th has a share of about 1/k (Zipf).
    weights = [1 / rank for rank in range(1, 3001)]
    vocabulary = [
        "".join(rng.choices("abcdefghijklmnop", k=rng.randint(2, 9))) for _ in range(3000)
    ]
    records = [
        record.model_copy(
            update={
                "turns": tuple(
                    turn.model_copy(
                        update={"response": " ".join(rng.choices(vocabulary, weights, k=120))}
                    )
                    for turn in record.turns
                )
            }
        )
        for record in run.records
    ]
    size = len(report_html(*with_records(run, records).arguments).encode())
    raw = sum(len(turn.response) for record in records for turn in record.turns)
    assert raw > 2_000_000
    assert size < 2_000_000


@pytest.mark.slow
def test_what_files_and_models_say_is_never_markup(small: Run) -> None:
    manifest = small.manifest.model_copy(
        update={
            "model": small.manifest.model.model_copy(
                update={"name": INJECTION, "revision": INJECTION}
            ),
            "engine": {"kind": INJECTION, INJECTION: [INJECTION]},
            "versions": {INJECTION: INJECTION},
            "command": (INJECTION,),
            "created": INJECTION,
            "overrides": {INJECTION: INJECTION},
        }
    )
    records = [
        with_error(record).model_copy(update={"category": INJECTION}) for record in small.records
    ]
    sessions = [{"started": INJECTION, "ended": INJECTION, "wall_s": INJECTION}]
    plain = report_html(*with_records(small, [with_error(r) for r in small.records]).arguments)
    hostile = report_html(manifest, records, summarize(manifest, records), sessions)
    count = [tag for tag, _ in Page(hostile).elements].count
    for tag in ("script", "img", "style", "b"):
        limit = [tag for tag, _ in Page(plain).elements].count(tag)
        assert count(tag) <= limit + 2 * (tag == "b"), tag
    assert count("script") == 2
    assert count("img") == 0
    assert "\u202e" not in hostile
    assert "\x1b" not in hostile
    assert "\x00" not in hostile
    assert "U+202E" in hostile
    assert "{{ 7 * 7 }}" in hostile


def test_boards_are_those_of_the_world(model: Run, page: str) -> None:
    data = unpacked(page)
    assert [panel["panel"] for panel in data["panels"]] == ["builtin"]
    assert data["panels"][0]["tiles"]["*"] == ["box on a target", "#f6d58e", "box"]
    assert len(data["episodes"]) == 256
    for episode, record in zip(data["episodes"], model.records, strict=True):
        place, number, name, repeat, category, success, *_, start, turns = episode
        assert (number, name, repeat, category) == (0, record.episode, 0, record.category)
        assert success == record.success
        observations = [start, *(turn[7] for turn in turns)]
        hashes = [record.observation_hash, *(turn.observation_hash for turn in record.turns)]
        assert [short_hash(text) for text in observations] == hashes
        assert model.records[place] is record


@pytest.mark.slow
def test_a_record_that_does_not_replay_is_marked(small: Run) -> None:
    records = list(small.records)
    records[2] = records[2].model_copy(update={"score": 3.25})
    records[4] = records[4].model_copy(update={"episode": "no-such-level"})
    html = report_html(*with_records(small, records).arguments)
    assert "2 of 12 records do not replay." in words(html)
    differences = {episode[0]: episode[10] for episode in unpacked(html)["episodes"]}
    assert {place for place, found in differences.items() if found} == {2, 4}
    assert re.fullmatch(r"episode, score: recorded 3\.25, replayed [-0-9.]+", differences[2][0])
    assert differences[4] == ["the panel has no such episode"]


@pytest.mark.slow
def test_without_the_run_s_protocol_the_report_says_why_and_has_no_boards(small: Run) -> None:
    panels = tuple(
        dataclasses.replace(panel, prompt_sha256="0" * 64) for panel in small.manifest.panels
    )
    manifest = small.manifest.model_copy(update={"panels": panels})
    html = report_html(manifest, small.records, small.summary, small.sessions)
    text = words(html)
    assert "No boards for sokoban/builtin." in text
    assert f"prompt_sha256 '{'0' * 64}', but here it is" in text
    assert "do not replay" not in text
    for episode in unpacked(html)["episodes"]:
        assert episode[10] == []
        assert episode[12] is None
        assert episode[13]


def test_errors_overrides_and_missing_episodes_stand_at_the_top() -> None:
    run = make_run(choices=SamplingOverrides(temperature=0.7, repeats=2), episodes=5)
    records = [with_error(run.records[0]), *run.records[1:]]
    text = words(report_html(*with_records(run, records).arguments))
    assert "incomplete run" in text
    assert "Incomplete run. sokoban/builtin: 10 of 512 records." in text
    assert "1 episode ended in an error and counts as a failure." in text
    assert "Overridden: repeats = 2 , temperature = 0.7" in text.replace("2,", "2 ,")
    assert "Wilson interval clustered by episode" in text
    assert "not the standard protocol" in text
    assert "Not the standard protocol." in text
    assert text.index("Incomplete run") < text.index("95% interval")


def test_a_report_names_the_protocol_of_its_run() -> None:
    run = make_run(choices=SamplingOverrides(protocol=THINKING), episodes=1)
    assert "thinking protocol thinking-1" in words(report_html(*run.arguments))


def test_a_shard_is_no_whole_run(small: Run) -> None:
    manifest = small.manifest.model_copy(update={"shard": Shard(index=1, count=2)})
    summary = dataclasses.replace(small.summary, complete=True)
    text = words(report_html(manifest, small.records, summary, []))
    assert "This is shard 1 of 2" in text
    assert "complete shard" in text
    assert "complete run" not in text


@pytest.mark.slow
def test_every_panel_has_its_section(small: Run) -> None:
    html = report_html(*small.arguments)
    identifiers = [a["id"] for _, a in Page(html).elements if "id" in a]
    assert len(identifiers) == len(set(identifiers))
    assert {"panel-1", "panel-2", "overview"} <= set(identifiers)
    assert [panel["panel"] for panel in unpacked(html)["panels"]] == ["builtin", "two_boxes"]


def test_a_run_without_records_still_has_a_report(small: Run) -> None:
    text = words(report_html(*with_records(small, []).arguments))
    assert "No episode of this panel is finished yet." in text
    assert "There are no episodes yet." in text


def test_episodes_that_find_no_room_are_counted(model: Run, page: str) -> None:
    everything = pack_episodes(model.manifest, model.records, model.summary)
    assert (everything.shown, everything.left_out) == (256, 0)
    room = len(base64.b64decode(everything.packed)) // 2
    some = pack_episodes(model.manifest, model.records, model.summary, max_packed=room)
    assert 0 < some.shown < 256
    assert some.shown + some.left_out == 256
    assert len(base64.b64decode(some.packed)) <= room * 1.5
    assert "are left out here" not in words(page)


def test_with_little_room_all_panels_are_represented(small: Run) -> None:
    room = 3_000
    some = pack_episodes(small.manifest, small.records, small.summary, max_packed=room)
    data = json.loads(zlib.decompress(base64.b64decode(some.packed)))
    counts = [sum(episode[1] == panel for episode in data["episodes"]) for panel in (0, 1)]
    assert some.left_out > 0
    assert max(counts) - min(counts) <= 1


@pytest.mark.slow
def test_of_a_long_response_both_ends_are_shown(small: Run) -> None:
    record = small.records[0]
    text = "a" * 50_000 + "z" * 50_000
    turn = record.turns[0].model_copy(update={"response": text})
    records = [record.model_copy(update={"turns": (turn, *record.turns[1:])}), *small.records[1:]]
    html = report_html(*with_records(small, records).arguments)
    shown = unpacked(html)["episodes"][0][13][0][0]
    left_out = 100_000 - MAX_TEXT
    assert shown.startswith("a" * 16_000 + "\n[...")
    assert shown.endswith("...]\n" + "z" * 4_000)
    assert f"{left_out:,} characters omitted" in shown


def test_a_record_of_another_panel_is_refused(small: Run) -> None:
    other = small.records[0].model_copy(update={"panel": "three_boxes"})
    with pytest.raises(UserError, match="does not play sokoban/three_boxes"):
        report_html(small.manifest, [other], small.summary, [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sessions", "expected"),
    [
        ([], "Speed –"),
        (
            [{"wall_s": 10.0, "response_tokens": 500, "idle_share": 0.5}],
            "50 tokens/s, engine idle 50.0%",
        ),
        (
            [
                {"wall_s": 10.0, "response_tokens": 500, "idle_share": 0.1},
                {"wall_s": 30.0, "response_tokens": 3500, "idle_share": 0.3},
            ],
            "100 tokens/s, engine idle 25.0%",
        ),
        (
            [{"wall_s": 10.0, "response_tokens": None, "idle_share": 0.5}],
            "10.0 s in all, engine idle 50.0%",
        ),
        ([{"wall_s": "<b>", "response_tokens": True}], "Speed –"),
        ([{"wall_s": float("nan"), "response_tokens": -1}], "Speed –"),
        ([{"wall_s": 10**400, "response_tokens": float("inf")}], "Speed –"),
    ],
)
def test_speed_comes_from_the_sessions(
    small: Run, sessions: list[dict[str, Any]], expected: str
) -> None:
    html = report_html(small.manifest, small.records, small.summary, sessions)
    assert expected in words(html)
