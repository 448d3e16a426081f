"""Forged models: weights that cannot be identified, that are others', or did not play the run."""

from collections.abc import Callable
from typing import Any

from tasks.seeding import sha256_text
from tests.benchmark.submissions.few_levels import EPISODES
from tests.benchmark.submissions.tampering.forgery import Forgery
from tests.support.submissions.small import INIT, Copy, Json

COMMIT = "0123456789" * 4


def model(number: int = 0, **changes: Any) -> Callable[[Copy], None]:
    """Name another model for a checkpoint, in `submission.json` and in its run."""

    def change(copy: Copy) -> None:
        def rename(about: Json) -> None:
            about["checkpoints"][number]["model"].update(changes)

        copy.about(rename)
        copy.manifest(lambda run: run["model"].update(changes), f"runs/r{number}")

    return change


def random_engine(run: Json) -> None:
    run["engine"]["policy"] = "random"


def both(*changes: Callable[[Copy], object]) -> Callable[[Copy], None]:
    """Apply several changes."""

    def change(copy: Copy) -> None:
        for one in changes:
            one(copy)

    return change


def init(**changes: Any) -> Callable[[Copy], None]:
    return lambda copy: copy.about(lambda about: about["init"].update(changes))


def about(**changes: Any) -> Callable[[Copy], None]:
    return lambda copy: copy.about(lambda fields: fields.update(changes))


def edited(change: Callable[[Json], None]) -> Callable[[Copy], None]:
    """Change `submission.json`."""
    return lambda copy: copy.about(change)


def kind(kind: str, **changes: Any) -> Callable[[Copy], None]:
    def change(fields: Json) -> None:
        fields["method"]["kind"] = kind
        fields.update(changes)

    return lambda copy: copy.about(change)


def noted_hash(number: int, sha256: str) -> Callable[[Copy], None]:
    """Add a hash of files to a run, next to the commit."""
    return lambda copy: copy.manifest(
        lambda run: run["model"].update(sha256=sha256), f"runs/r{number}"
    )


def renamed_run(copy: Copy) -> None:
    copy.manifest(lambda run: run["model"].update(name="grpo-s9"))


def other_seeds_records(copy: Copy) -> None:
    for file in ("episodes.jsonl.zst", "summary.json"):
        copy.write(f"runs/r1/{file}", copy.read(f"runs/r0/{file}"))


def seeds_with_other_panels(copy: Copy) -> None:
    copy.manifest(lambda run: run["panels"][0].update(max_turns=30), "runs/r1")


def twice(fields: Json) -> None:
    fields["checkpoints"][1]["seed"] = 0


def with_a_seed(fields: Json) -> None:
    fields["checkpoints"][0]["seed"] = 5


def run_twice(fields: Json) -> None:
    fields["checkpoints"][1]["runs"] = ["runs/r0"]


def log_twice(fields: Json) -> None:
    fields["checkpoints"][1]["training_log"] = "training/s0.jsonl.zst"


def file_twice(fields: Json) -> None:
    fields["files"].append(fields["files"][0])


def two(fields: Json) -> None:
    fields["checkpoints"].append({**fields["checkpoints"][0], "seed": 1, "runs": ["runs/r1"]})


DATA = {
    "statement": "Everything.",
    "training_streams": [],
    "other": False,
    "panel_episodes": False,
}
HUB: Json = {"kind": "hub", "name": "a/b", "sha256": None, "revision": COMMIT}
FORGERIES = [
    Forgery(
        "init sold as trained",
        "trained",
        both(
            model(kind="folder", name="mine", sha256=INIT["sha256"]),
            init(kind="folder", name="base", sha256=sha256_text("base")),
        ),
        "these are the weights of the init tiny-sokoban",
    ),
    Forgery("served model", "trained", model(kind="endpoint"), "the weights cannot be identified"),
    Forgery(
        "hub without commit",
        "trained",
        model(kind="hub", name="a/b", sha256=None),
        "the weights cannot be i",
    ),
    Forgery(
        "hub at a branch",
        "trained",
        model(**{**HUB, "revision": "main"}),
        "revision must be a commit",
    ),
    Forgery(
        "folder without hash", "trained", model(sha256=None), "the weights cannot be identified"
    ),
    Forgery(
        "a registered init under another name",
        "trained",
        both(init(kind="folder", name="Large-7B"), about(base_model="Large-7B", parameters=7)),
        "these are the weights of the init tiny-sokoban; use its registered name",
    ),
    *(
        Forgery(
            f"other weights under the name {name} of an init",
            "trained",
            init(kind="folder", name=name, sha256="7" * 64),
            "is called like the init tiny-sokoban, which has other weights",
        )
        for name in ("tiny-sokoban", "Tiny-S0koban")
    ),
    Forgery(
        "init of other weights", "trained", init(sha256="0" * 64), "tiny-sokoban has other weig"
    ),
    Forgery(
        "init without a pinned hash",
        "trained",
        init(name="unpinned", sha256="7" * 64),
        "submission.json, init: the registry has no hash of unpinned: any weights "
        "could have this name",
    ),
    Forgery(
        "unknown init", "trained", init(name="huge-sokoban"), "there is no init 'huge-sokoban'"
    ),
    Forgery(
        "served init", "trained", init(kind="endpoint"), "submission.json, init: tiny-sokoban (e"
    ),
    Forgery("no init", "trained", about(init=None), "a trained checkpoint: give init"),
    Forgery("init of a policy", "policy", about(init=INIT), "a scripted policy: remove init"),
    Forgery(
        "policy claimed as trained",
        "policy",
        kind("trained", base_model="b", parameters=1, init=INIT, training_data=DATA),
        "checkpoints.0.model: has kind policy, but method.kind is trained",
    ),
    Forgery(
        "policy claimed as weights", "policy", model(kind="folder", sha256="1" * 64), "of kind f"
    ),
    Forgery(
        "weights claimed as init",
        "policy",
        both(
            kind("init", base_model="b", parameters=1, training_data=DATA),
            model(kind="folder", sha256="1" * 64),
        ),
        "has kind folder, but method.kind is init",
    ),
    Forgery("unknown policy", "policy", model(name="oracle"), "there is no policy 'oracle'"),
    Forgery(
        "policy of another name",
        "policy",
        both(model(name="random"), lambda copy: copy.manifest(random_engine)),
        "policy random gives another",
    ),
    Forgery(
        "run of another model", "trained", renamed_run, "run.json, model: grpo-s9 (folder, SHA-"
    ),
    Forgery(
        "the same weights twice",
        "trained",
        model(1, sha256=sha256_text("s0")),
        "seeds 0 and 1 have the same weights",
    ),
    Forgery(
        "the same commit twice",
        "trained",
        both(model(**HUB), model(1, **HUB)),
        "seeds 0 and 1 have the same weights",
    ),
    Forgery(
        "one commit in two repositories",
        "trained",
        both(model(**HUB), model(1, **(HUB | {"name": "c/d"}))),
        "seeds 0 and 1 have the same weights",
    ),
    Forgery(
        "the same files under two commits",
        "trained",
        both(
            model(**HUB),
            model(1, **(HUB | {"revision": COMMIT[::-1]})),
            *(noted_hash(seed, "ab" * 32) for seed in (0, 1)),
        ),
        "seeds 0 and 1 have the same weights",
    ),
    Forgery(
        "weights of the init",
        "trained",
        model(1, sha256=INIT["sha256"]),
        "seed 1 has the weights of the init",
    ),
    Forgery(
        "commit of the init",
        "trained",
        both(model(1, **HUB), init(**HUB)),
        "seed 1 has the weights of the init",
    ),
    Forgery(
        "records of another model",
        "trained",
        other_seeds_records,
        f"{EPISODES} of {EPISODES} episodes have the answers and log-probabilities of runs/r0",
    ),
    Forgery(
        "seeds with other panels",
        "trained",
        seeds_with_other_panels,
        "seed 1 played other panels or protocols than seed 0",
    ),
    Forgery("seed twice", "trained", edited(twice), "two checkpoints have the seed 0"),
    Forgery("run twice", "trained", edited(run_twice), "a run folder is listed twice: ru"),
    Forgery("log twice", "trained", edited(log_twice), "a training log is listed twice: t"),
    Forgery("file twice", "trained", edited(file_twice), "two files have the path runs/r0"),
    Forgery("seed of a policy", "policy", edited(with_a_seed), "has no training seed"),
    Forgery("two policies", "policy", edited(two), "policy has one checkpoint and no tra"),
    Forgery(
        "name in colors", "trained", model(name="\x1b[31ma"), "is not a plain name: letters, dig"
    ),
    Forgery(
        "Cyrillic model", "trained", model(name="grp\u043e"), "is not a plain name: letters, digits"
    ),
]
