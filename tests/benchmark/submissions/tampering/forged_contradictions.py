"""Forgeries with contradictions: in names of weights, configurations, curves, runs."""

import json
from collections.abc import Callable
from typing import Any

from tests.benchmark.submissions.tampering.forged_logs import LOG, update, updates, validations
from tests.benchmark.submissions.tampering.forged_models import COMMIT, both, model
from tests.benchmark.submissions.tampering.forged_texts import about
from tests.benchmark.submissions.tampering.forged_trainings import Lines, logs, start
from tests.benchmark.submissions.tampering.forgery import Forgery
from tests.support.submissions.small import Copy, Json

RUN = "runs/r0/run.json"
KINDS: tuple[Any, ...] = (
    *("Scripted", "scripted ", "expert", "server"),
    *(None, ["transformers"], {}),
)
NOT_A_NAME = "is not the name of a hub model: OWNER/NAME"


def hub(name: str, seed: int = 0, **changes: Any) -> Callable[[Copy], None]:
    fields = {"name": name, "kind": "hub", "revision": COMMIT, "sha256": None}
    return model(seed, **(fields | changes))


def configured(updates: Any, every: Any, **sections: Json) -> Callable[[Copy], None]:
    """Change the settings in both logs, but not their lines."""

    def change(lines: Lines) -> None:
        configuration = lines[0]["configuration"]
        configuration["optimization"] |= {"updates": updates, **sections.get("optimization", {})}
        configuration["validation"]["every"] = every
        configuration |= {k: v for k, v in sections.items() if k != "optimization"}

    return logs(change)


def setting(section: str, name: str, value: Any) -> Callable[[Copy], None]:
    """Change one setting in both logs."""

    def change(lines: Lines) -> None:
        lines[0]["configuration"][section][name] = value

    return logs(change)


def without_section(name: str) -> Callable[[Copy], None]:
    def change(lines: Lines) -> None:
        del lines[0]["configuration"][name]

    return logs(change)


def not_finite(lines: Lines) -> None:
    """Remove all numbers that distinguish training runs, and claim that they were measured."""
    for line in updates(lines):
        gone = [
            name
            for name, value in line.items()
            if isinstance(value, float)
            and not value.is_integer()
            and name not in ("rollout/success", "rollout/uniform_groups", "seconds_total")
        ]
        for name in gone:
            del line[name]
        line["nonfinite"] = gone


def one_other_validation(copy: Copy) -> None:
    """Add a turn in all of a validation of the second seed."""

    def change(lines: Lines) -> None:
        line = validations(lines)[3]
        line["turns"] += 1 / line["episodes"]
        line["format_ok"] = line["action_ok"] = 1.0

    copy.log(change, 1)


def rated(rate: float, schedule: str = "constant", warmup: int = 0) -> Callable[[Copy], None]:
    """A learning rate of 1e-4 in all updates, but another one in the configuration."""

    def change(lines: Lines) -> None:
        for line in updates(lines):
            line["policy/learning_rate"] = 1e-4

    told = {"learning_rate": rate, "schedule": schedule, "warmup_updates": warmup}
    return both(logs(change), configured(20, 1, optimization=told))


def without(*names: str, null: bool = False) -> Callable[[Copy], None]:
    def change(lines: Lines) -> None:
        for line in updates(lines):
            for name in names:
                line[name] = None
                if not null:
                    del line[name]

    return logs(change)


def one_curve(*, bare: bool) -> Callable[[Copy], None]:
    """Seed 1's log repeats the validations of seed 0, with its own updates or none."""

    def change(copy: Copy) -> None:
        lines = [json.loads(line) for line in copy.read(LOG).splitlines()]
        other = {line["update"]: line for line in validations(lines)}

        def replace(own: Lines) -> Lines:
            for line in updates(own) if bare else ():
                for name in [name for name in line if name.startswith(("kl", "ratio", "engine"))]:
                    line[name] = None
            return [other[line["update"]] if line["kind"] == "validation" else line for line in own]

        copy.log(replace, seed=1)

    return change


def two_names(lines: Lines) -> Lines:
    """A second name for the panel comes first, with the better curve."""
    made: Lines = []
    for line in lines:
        if line["kind"] == "validation":
            made.append({**line, "panel": "better"})
        made.append(line)
    return made


def run(**changes: Any) -> Callable[[Copy], None]:
    return lambda copy: copy.manifest(lambda fields: fields.update(changes))


def resumed(lines: Lines) -> Lines:
    """Sessions without any update."""
    line = {"kind": "resume", "update": 0, "engine": {}, "versions": {}}
    return [lines[0], *[line] * len(lines), *lines[1:]]


def without_version(lines: Lines) -> None:
    del lines[0]["schema_version"]


FORGERIES = [
    Forgery(
        "a version that is true",
        "policy",
        about(schema_version=True),
        "submission.json, schema_version: has the wrong type",
    ),
    Forgery(
        "a log's version that is true",
        "trained",
        start(schema_version=True),
        f"{LOG}, line 1, schema_version: has the wrong type",
    ),
    Forgery(
        "a log without a version",
        "trained",
        logs(without_version),
        f"{LOG}, line 1, schema_version: is missing",
    ),
    Forgery("sessions of nothing", "trained", logs(resumed), "continues 42 times, more often than"),
    *(
        Forgery(f"hub model {name!r}", "trained", hub(name), NOT_A_NAME)
        for name in (
            *("a", "a/b/c", "a//b", "a/../b", "a/..", "a/b..c", "a/b--c", "a/b@c"),
            *("x/../../datasets/me/data", "datasets/me/data", "spaces/me/space", "a/b/"),
        )
    ),
    *(
        Forgery(f"hub model {name!r}", "trained", hub(name), "is not a plain name: letters, digits")
        for name in ("./a", "/a/b", "a/b?x", "a/%2e%2e/b", "a\\b")
    ),
    Forgery(
        "hub model with a hash of its own",
        "trained",
        hub("a/b", sha256="1" * 64),
        "a hub model's commit says which files it has: remove sha256",
    ),
    *(
        Forgery(
            f"one commit as two seeds, {name}",
            "trained",
            both(hub("Owner/Name"), hub(name, 1)),
            "seeds 0 and 1 have the same weights",
        )
        for name in ("Owner/Name", "owner/name", "OWNER/NAME", "oWNER/nAME")
    ),
    *(
        Forgery(
            f"20 updates, configured as {count} with validations every {every}",
            "trained",
            configured(count, every),
            f"{LOG}, updates: ends at update 20, but the configuration says {count}",
        )
        for count, every in ((1, 10**6), (19, 1), (10, 20))
    ),
    Forgery(
        "other groups",
        "trained",
        configured(
            20,
            1,
            rollout={"groups": 4, "group_size": 32},
            sampling={"dynamic": None, "cross_policy": None},
        ),
        f"{LOG}, update 1: rollout/groups is 16, the configuration gives 4",
    ),
    *(
        Forgery(
            f"configured {section}.{name} {shown}",
            "trained",
            setting(section, name, value),
            f"{LOG}, line 1, configuration: {section}.{name} is {shown}, the trainer writes",
        )
        for section, name, value, shown in (
            ("optimization", "learning_rate", "0.0001", '"0.0001"'),
            ("optimization", "learning_rate", 1, "1"),
            ("optimization", "learning_rate", True, "true"),
            ("optimization", "learning_rate", -1e-4, "-0.0001"),
            ("optimization", "warmup_updates", 2.5, "2.5"),
            ("optimization", "warmup_updates", [], "[]"),
            ("optimization", "warmup_updates", False, "false"),
            ("optimization", "schedule", "cosine", '"cosine"'),
            ("optimization", "schedule", ["linear"], '["linear"]'),
            ("rollout", "groups", 16.0, "16.0"),
            ("rollout", "groups", {}, "{}"),
            ("rollout", "group_size", None, "null"),
            ("rollout", "group_size", "1" * 600, '"' + "1" * 38 + "\u2026"),
            ("sampling", "dynamic", True, "true"),
            ("sampling", "cross_policy", "\x1b[2J", '"\\u001b[2J"'),
        )
    ),
    *(
        Forgery(
            f"configuration without {name}",
            "trained",
            without_section(name),
            f"{LOG}, line 1, configuration: {name}.",
        )
        for name in ("rollout", "sampling")
    ),
    Forgery(
        "another name for how episodes are drawn",
        "trained",
        both(setting("sampling", "anything", True), setting("rollout", "groups", 4)),
        f"{LOG}, update 1: rollout/groups is 16, the configuration gives 4",
    ),
    Forgery(
        "another learning rate", "trained", rated(2e-4), "is 0.0001, the configuration gives 0.0002"
    ),
    Forgery(
        "a warm-up that was none",
        "trained",
        rated(1e-4, warmup=10),
        "policy/learning_rate is 0.0001, the configuration gives 1e-05",
    ),
    Forgery(
        "a schedule that was none",
        "trained",
        rated(1e-4, "linear"),
        f"{LOG}, update 2: policy/learning_rate is 0.0001, the configuration gives 9.5e-05",
    ),
    *(
        Forgery(
            f"updates without {name}, {'as null' if null else 'left out'}",
            "trained",
            without(name, null=null),
            f"{LOG}, update 1: lacks {name}, which the trainer always measures",
        )
        for name in ("rollout/return", "policy/grad_norm", "ratio/ess", "kl_old/mean")
        for null in (False, True)
    ),
    Forgery(
        "an update without its rollouts",
        "trained",
        update(rollout__turns=None),
        f"{LOG}, update 4: lacks rollout/turns",
    ),
    *(
        Forgery(
            f"one curve for two seeds{', numbers taken out' if bare else ''}",
            "trained",
            one_curve(bare=bare),
            "20 validations after the init's are those of training/s0.jsonl.zst",
        )
        for bare in (False, True)
    ),
    Forgery(
        "one curve for two seeds, a validation changed",
        "trained",
        both(one_curve(bare=False), one_other_validation),
        "19 validations after the init's are those of training/s0.jsonl.zst",
    ),
    Forgery(
        "numbers that are said not to be finite",
        "trained",
        logs(not_finite),
        f"{LOG}, update 1: has optimizer steps, but most of its numbers are missing, integers",
    ),
    Forgery(
        "two names for one panel",
        "trained",
        logs(two_names),
        f"{LOG}, validations: better and builtin are two names for one panel",
    ),
    Forgery(
        "a policy's engine",
        "trained",
        run(engine={"kind": "scripted", "policy": "expert"}),
        f"{RUN}, engine.kind: is 'scripted', but the model is of kind folder",
    ),
    Forgery(
        "a data type that a shell would run",
        "trained",
        run(engine={"kind": "transformers", "dtype": "<(touch stolen; echo float32)"}),
        f"{RUN}, engine.dtype: is '<(touch stolen; echo float32)', which is not a data type",
    ),
    Forgery(
        "a model's engine for a policy",
        "policy",
        run(engine={"kind": "transformers"}),
        f"{RUN}, engine.kind: is 'transformers', but the model is of kind policy",
    ),
    *(
        Forgery(
            f"an engine of its own: {kind}",
            "trained",
            run(engine={"kind": kind}),
            f"{RUN}, engine.kind: is {kind!r}, but the model is of kind folder",
        )
        for kind in KINDS
    ),
    *(
        Forgery(
            f"an engine with {said!r} as its {fact}",
            "trained",
            run(engine={"kind": "transformers", "dtype": "float32", fact: said}),
            f"{RUN}, engine.{fact}: {problem}",
        )
        for fact, said, problem in (
            ("policy", "re-run by the maintainers", "is "),
            ("opened", "officially solved: 99%", "is "),
            ("model_args", "replayed twice", "can be shown only with "),
            ("model_args", {"quantization": "verified"}, "'verified' is what the board says"),
            ("model_args", {"rope_scaling": {"rope type": 1}}, "can be shown only with "),
            ("batch_invariant", "state of the art", "is "),
            ("context", "verified", "is "),
            ("device", "official", "'official' is what the board says"),
        )
    ),
    Forgery(
        "another policy's engine",
        "policy",
        run(engine={"kind": "scripted", "policy": "random"}),
        f"{RUN}, engine.policy: is 'random', but the model is 'expert'",
    ),
    Forgery(
        "another policy's command",
        "policy",
        run(command=["arlarena-bench", "eval", "--engine", "random"]),
        f"{RUN}, command: has the engine 'random', but the model is of kind policy",
    ),
    *(
        Forgery(
            f"a policy's command: {' '.join(words)}",
            "trained",
            run(command=["arlarena-bench", "eval", *words]),
            f"{RUN}, command: {said} expert, but the model is of kind folder".replace(
                "engine expert", "engine 'expert'"
            ),
        )
        for words, said in (
            (("--engine", "expert"), "has the engine"),
            (("--engine=expert",), "has the engine"),
            (("--model", "a", "--engine", "expert", "--task", "all"), "has the engine"),
            (("--engine", "auto", "--engine=expert"), "has the engine"),
            (("--policy", "expert"), "names the policy"),
            (("--policy=expert",), "names the policy"),
            (("-e", "expert"), "names the policy"),
            (("expert",), "names the policy"),
        )
    ),
    Forgery(
        "another engine's command",
        "trained",
        run(command=["arlarena-bench", "eval", "--engine", "vllm"]),
        f"{RUN}, command: has the engine 'vllm', but the model is of kind folder",
    ),
    Forgery(
        "evaluated six years before its training",
        "trained",
        run(created="2020-01-01T00:00:00+00:00"),
        f"{RUN}, created: 2020-01-01T00:00:00+00:00 is before the training run began, on "
        "2026-01-02",
    ),
]
