"""Forged runs: another protocol, an incomplete one, duplicate panels, an edited summary."""

import json
from typing import Any

from benchmark.evaluation.protocol import THINKING
from tests.benchmark.submissions.tampering.forgery import Forgery
from tests.support.submissions.small import Copy, Json

RUN = "runs/r0/run.json"
SUMMARY = "runs/r0/summary.json"


def panel(**changes: Any) -> Any:
    """Change the protocol, and update fingerprint and overrides."""
    return lambda copy: copy.panel(**changes)


def sampling(**changes: Any) -> Any:
    """Change the sampling settings."""
    return lambda copy: copy.manifest(lambda run: run["panels"][0]["sampling"].update(changes))


def hidden_override(copy: Copy) -> None:
    def change(run: Json) -> None:
        run["overrides"] = {}

    copy.panel(seed=1)
    copy.manifest(change, restate=False)


def run(restate: bool = True, **changes: Any) -> Any:
    """Change other fields of `run.json`."""
    return lambda copy: copy.manifest(lambda fields: fields.update(changes), restate=restate)


def half_a_panel(copy: Copy) -> None:
    copy.records(lambda records: [record for record in records if record["success"]])
    solved = len(copy.read("runs/r0/episodes.jsonl.zst").splitlines())
    copy.panel(episodes=solved)


def two_panels_twice(copy: Copy) -> None:
    copy.manifest(lambda run: run["panels"].append(run["panels"][0]))


def a_run_twice(copy: Copy) -> None:
    for file in ("run.json", "summary.json", "episodes.jsonl.zst"):
        copy.write(f"runs/again/{file}", copy.read(f"runs/r0/{file}"))
    copy.about(lambda about: about["checkpoints"][0]["runs"].append("runs/again"))


def text_for_number(copy: Copy) -> None:
    content = json.loads(copy.read(RUN))
    content["panels"][0]["max_turns"] = "15"
    copy.write(RUN, json.dumps(content).encode())


def bool_for_number(copy: Copy) -> None:
    content = json.loads(copy.read(RUN))
    content["panels"][0]["repeats"] = True
    copy.write(RUN, json.dumps(content).encode())


def twin_panels(copy: Copy) -> None:
    content = copy.read(RUN)
    copy.write(RUN, content.replace(b'"panels":', b'"panels": [], "panels":', 1))


def edited_summary(copy: Copy) -> None:
    summary = json.loads(copy.read(SUMMARY))
    summary["panels"][0]["success"]["value"] = 1.0
    copy.write(SUMMARY, (json.dumps(summary, sort_keys=True, indent=2) + "\n").encode())


NOT_STANDARD = f"{RUN}, overrides: not the protocol's own values: "
FORGERIES = [
    Forgery("other turn seeds", "policy", panel(seed=1), NOT_STANDARD + "seed = 1"),
    Forgery("hidden turn seeds", "policy", hidden_override, "overrides do not match"),
    Forgery("other temperature", "policy", sampling(temperature=0.5), "temperature = 0.5"),
    Forgery("longer answers", "policy", sampling(max_tokens=4096), "max_tokens = 4096"),
    Forgery("more plays", "policy", panel(repeats=2), NOT_STANDARD + "repeats = 2"),
    Forgery("other settings", "policy", panel(settings={"easy": "on"}), "sokoban.easy = on"),
    Forgery("text as images", "policy", panel(settings={"view": "pixels"}), "with prompt_sha256"),
    Forgery("other prompt", "policy", panel(prompt_sha256="0" * 64), "played with prompt_sha256"),
    Forgery("unknown protocol", "policy", panel(name="v9"), "panels.0.name: Input should be"),
    Forgery("other protocol", "policy", panel(name=THINKING), "temperature = 0"),
    Forgery("two protocols", "trained", panel(name=THINKING), "protocols thinking-1 and v1"),
    Forgery("other penalty", "policy", panel(format_penalty=0), "played with format_penalty 0.0"),
    Forgery("more turns", "policy", panel(max_turns=30), "with max_turns 30, but here it is 15"),
    Forgery("more history", "policy", panel(history_turns=9), "with history_turns 9"),
    Forgery("other contract", "policy", panel(contract="anything goes"), "with contract 'anything"),
    Forgery("other packages", "policy", panel(packages={"easy": "1"}), "played with packages"),
    Forgery("other panel file", "policy", panel(panel_sha256="0" * 64), "played with panel_sha256"),
    Forgery("other world", "policy", panel(trace_sha256=None), "played with trace_sha256 None"),
    Forgery("unknown panel", "policy", panel(panel="easy"), "the run does not play it"),
    Forgery("unknown task", "policy", panel(task="chess"), "chess"),
    Forgery("a panel without end", "policy", panel(episodes=10**30), "episodes is more than 1,000"),
    Forgery("repeats beyond memory", "policy", panel(repeats=10**9), "000000 episodes are missing"),
    Forgery("repeats without end", "policy", panel(repeats=2**63), "repeats is more than 1,000"),
    Forgery(
        "a shard of too many",
        "policy",
        run(shard={"index": 10**300, "count": 10**300}),
        "run.json: the number 10000000000000000000... is too large",
    ),
    Forgery("half a panel", "trained", half_a_panel, "with episodes 18, but here it is 24"),
    Forgery("edited fingerprint", "policy", run(restate=False, fingerprint="0" * 64), "edited"),
    Forgery(
        "a shard", "policy", run(shard={"index": 1, "count": 2}), "shard: is only a part of a run"
    ),
    Forgery("a panel twice in a run", "policy", two_panels_twice, "a panel is listed twice"),
    Forgery("a panel in two runs", "policy", a_run_twice, "sokoban/builtin is also in runs/r0"),
    Forgery("future run", "policy", run(schema_version=2), "schema_version: it is 2, and"),
    Forgery("extra field of a run", "policy", run(bonus=1), "bonus: Extra inputs are not"),
    Forgery(
        "text for number in a run",
        "policy",
        text_for_number,
        "panels.0.max_turns: has the wrong type",
    ),
    Forgery(
        "bool for number in a run",
        "policy",
        bool_for_number,
        "panels.0.repeats: has the wrong type",
    ),
    Forgery(
        "a run to come",
        "policy",
        run(created="2026-01-04T00:00:00+00:00"),
        f"{RUN}, created: 2026-01-04T00:00:00+00:00 is after the submission date 2026-",
    ),
    Forgery("a run at no time", "policy", run(created="2999-13-45 nonsense"), "is not a UTC time"),
    Forgery("a run in no month", "policy", run(created="2025-13-01T00:00:00Z"), "is not a UTC ti"),
    Forgery("a long run.json", "policy", run(created="x" * 10**5), "is longer than 32,768 bytes"),
    Forgery("twin fields of a run", "policy", twin_panels, f"{RUN}: a field appears twice"),
    Forgery("edited summary", "trained", edited_summary, f"{SUMMARY}: does not match the records"),
]
