"""Small real submissions, played once, and copies of them for tests to tamper with."""

import asyncio
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from benchmark.engines.core.scripted import ScriptedEngine
from benchmark.evaluation.evaluate import Plan, evaluate
from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.protocol import overrides_of, run_fingerprint
from benchmark.evaluation.records import EpisodeRecord, TurnRecord
from benchmark.evaluation.run_folder import RunFolder, read_run
from benchmark.evaluation.summarize import summarize
from benchmark.evaluation.summary import summary_json
from benchmark.logs.training_log import read_training_log
from benchmark.models import ModelIdentity
from benchmark.submissions.check import CheckResult, check_submission, read_accepted
from benchmark.submissions.checks.accepted_entries import AcceptedEntry
from benchmark.submissions.checks.context import Context
from benchmark.submissions.parts import Played, RunUpload
from benchmark.submissions.prepare import prepare
from benchmark.submissions.reading.reruns import Rerun, RerunSample, digest_of
from tasks.errors import UserError
from tasks.seeding import sha256_text, stable_seed
from tests.support.training.logs import (
    Line,
    measured_line,
    run_lines,
    validation_line,
    write_log,
)

Json = dict[str, Any]

INITS: Mapping[str, str | None] = {"tiny-sokoban": sha256_text("init"), "unpinned": None}
"""The registry for these submissions, whose logs start from its init."""
INIT = {"name": "tiny-sokoban", "kind": "init", "revision": None, "sha256": sha256_text("init")}
CREATED = "2026-01-01T12:00:00+00:00"
PLAN = Plan.of([("sokoban", "builtin")])
SEEDS = (0, 1)
SOLVED_OF_TEN = 6
"""Of ten episodes of a trained checkpoint, the number played by the expert; others are random."""


def play_policy(path: Path, policy: str, plan: Plan = PLAN) -> Path:
    """Play a plan with a scripted policy, on the day before the submissions are made."""
    manifest = plan.manifest(ModelIdentity(name=policy, kind="policy"), ScriptedEngine(policy))
    manifest = manifest.model_copy(update={"created": CREATED})

    async def run() -> None:
        with RunFolder(path, manifest, plan.keys()) as folder:
            await evaluate(plan, ScriptedEngine(policy), folder, concurrency=16)

    asyncio.run(run())
    return path


def about(kind: str = "policy", **changes: Any) -> Json:
    """The `about.yaml` of a submission."""
    trained = kind == "trained"
    weights = kind != "policy"
    data = {
        "statement": "Levels of the training stream.",
        "training_streams": ["sokoban"],
        "other": False,
        "panel_episodes": False,
    }
    fields: Json = {
        "schema_version": 1,
        "name": f"A {kind} entry",
        "date": "2026-01-02",
        "authors": ["Ada Lovelace"],
        "contact": "https://example.org/ada",
        "method": {"kind": kind, "recipe": "grpo", "description": "As the name says."},
        "base_model": "tiny-sokoban" if weights else None,
        "parameters": 442_272 if weights else None,
        "init": INIT if trained else None,
        "training_data": data if weights else None,
    }
    return fields | changes


def policy_submission(root: Path, run: Path) -> Path:
    """A submission of a policy."""
    manifest, records = read_run(run)
    part = RunUpload(0, manifest.model, (Played(run, manifest, records),), None)
    folder = root / "20260102_policy"
    prepare([part], about("policy"), folder)
    return folder


def trained_submission(root: Path, expert: Path, random: Path, logs: bool = True) -> Path:
    """A submission of two seeds that solve about 60%, with invented tokens."""
    parts = []
    for seed in SEEDS:
        model = ModelIdentity(name=f"grpo-s{seed}", kind="folder", sha256=sha256_text(f"s{seed}"))
        played = played_by(model, expert, random, stable_seed("records", seed))
        solved = sum(record.solved for record in played.records)
        path = write_log(root / f"s{seed}.jsonl", training_lines(seed, played.manifest, solved))
        log = read_training_log(path) if logs else None
        parts.append(RunUpload(seed, model, (played,), log))
    folder = root / "20260102_trained"
    prepare(parts, about("trained"), folder)
    return folder


def played_by(model: ModelIdentity, expert: Path, random: Path, seed: int) -> Played:
    """A run of a model that plays some episodes like the expert and the others at random."""
    manifest, good = read_run(expert)
    _, bad = read_run(random)
    records = [
        with_tokens(one if stable_seed(seed, one.episode) % 10 < SOLVED_OF_TEN else other, seed)
        for one, other in zip(good, bad, strict=True)
    ]
    engine = {"kind": "transformers", "dtype": "float32"}
    changed = manifest.model_copy(update={"model": model, "engine": engine})
    return Played(expert, changed, records)


def with_tokens(record: EpisodeRecord, seed: int) -> EpisodeRecord:
    """A record with invented token counts and log-probabilities; equal texts have equal lengths."""

    def counted(number: int, turn: TurnRecord) -> TurnRecord:
        drawn = stable_seed(seed, record.episode, number) % 9_000
        return turn.model_copy(
            update={
                "prompt_tokens": 100 + number,
                "response_tokens": 1 + len(turn.response) // 4,
                "log_prob": -(1 + drawn) / 1000,
            }
        )

    turns = tuple(counted(number, turn) for number, turn in enumerate(record.turns))
    return record.model_copy(update={"turns": turns})


def training_lines(
    seed: int, manifest: Manifest, solved: int | None = None, **changes: Any
) -> list[Line]:
    """A consistent log: its rates are counts, and its validations are on the evaluated panel.

    If given, the last validation matches the evaluation.
    """
    (panel,) = manifest.panels
    first, *lines = run_lines(seed=seed, updates=20, **changes)
    if solved is not None:
        lines[-1] |= {"success": solved / panel.episodes}
    start = {**trainer_line(first, 20, 1), "fingerprint": manifest.fingerprint}
    made = (panel_line(line, panel.fingerprint, panel.episodes, seed) for line in lines)
    return [start, *made]


def panel_line(line: Line, fingerprint: str, episodes: int = 256, seed: int = 0) -> Line:
    """A line of `tests.support.training.logs` with counts instead of shares, and a fingerprint.

    The turns of a validation and the numbers of an update differ between seeds.
    """
    if line["kind"] == "validation":
        update, solved = line["update"], round(episodes * line["success"])
        drawn = stable_seed("turns", seed, update) if update else 0
        turns = 5 * episodes + drawn % (5 * episodes)
        shares = {name: round(turns * line[name]) / turns for name in ("format_ok", "action_ok")}
        of_panel = validation_line(update, solved, episodes, turns=turns / episodes, **shares)
        return {**line, **of_panel, "fingerprint": fingerprint}
    share = round(line["rollout/success"] * 128) / 128
    counts = {"rollout/episodes": 128, "rollout/success": share}
    counts |= {"rollout/groups": 16, "rollout/uniform_groups": 0.25}
    return {**measured_line(line["update"], seed=seed), **line, **counts}


def lose_at_the_end(lines: list[Line]) -> None:
    """Make a training log's last validation so bad that the run counts as halved."""
    last = [line for line in lines if line["kind"] == "validation"][-1]
    last |= {"success": 0.05, "wilson_low": 0.0, "wilson_high": 0.1}


def trainer_line(line: Line, updates: int, every: int | None) -> Line:
    """A start line whose configuration states the run's length, in this project's format."""
    optimization = {"updates": updates, "learning_rate": 0.0, "warmup_updates": 0}
    line["configuration"] |= {
        "optimization": {**optimization, "schedule": "constant"},
        "validation": {"every": every},
        "rollout": {"groups": 16, "group_size": 8},
        "sampling": {"dynamic": None, "cross_policy": None},
    }
    return line


def check(
    folder: Path,
    others: Sequence[AcceptedEntry] = (),
    base: str | None = None,
    env_processes: int = 1,
) -> CheckResult:
    """Check a folder against the registry of these submissions."""
    return check_submission(folder, Context(INITS, others, env_processes=env_processes), base)


def rerun_record(folder: Path, **changes: object) -> dict[str, tuple[Rerun, ...]]:
    """The maintainers' record of a successful rerun of an entry's weights.

    Args:
        folder: The entry's folder; every run has played `sokoban/builtin`.
        changes: Fields to override in the sample or in each run's part of it.
    """
    part = {"task": "sokoban", "panel": "builtin", "episodes": 256, "count": 32, "equal": 29}
    part |= {"greedy": True} | {k: v for k, v in changes.items() if k in (*part, "greedy")}
    runs = [run for point in read_accepted(folder).checkpoints for run in point.runs]
    sample = RerunSample.model_validate(
        {"commit": "a" * 40, "nonce": "b" * 32, "what": "episodes", "count": 64, "equal": 58}
        | {"holds": changes.get("holds", True)}
        | {"panels": [{"run": str(run.path), **part} for run in runs]}
    )
    digest = digest_of(folder)
    made = Rerun(date="2026-03-01", by="a", note="b", sample=sample, submission_sha256=digest)
    return {folder.name: (made,)}


def unpacked(stored: bytes) -> bytes:
    """Decompress."""
    with pa.CompressedInputStream(pa.BufferReader(stored), "zstd") as stream:
        content: bytes = stream.read()
    return content


def squeezed(content: bytes) -> bytes:
    """Compress, quickly."""
    compressed: bytes = pa.Codec("zstd", compression_level=1).compress(content, asbytes=True)
    return compressed


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a submission to tamper with. Every changed file is listed again with its hash."""

    folder: Path

    def read(self, name: str) -> bytes:
        """A file's content, decompressed."""
        content = (self.folder / name).read_bytes()
        return unpacked(content) if name.endswith(".zst") else content

    def write(self, name: str, content: bytes) -> None:
        """Store content and list it with its hash."""
        stored = squeezed(content) if name.endswith(".zst") else content
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_bytes(stored)
        self.relist(name, len(content) if name.endswith(".zst") else None)

    def relist(self, name: str, content_bytes: int | None = None, **changes: Any) -> None:
        """List a file as stored, or with other facts."""
        stored = (self.folder / name).read_bytes()
        facts = {
            "path": name,
            "bytes": len(stored),
            "sha256": hashlib.sha256(stored).hexdigest(),
            "content_bytes": content_bytes,
            "url": None,
            **changes,
        }

        def change(about: Json) -> None:
            about["files"] = [file for file in about["files"] if file["path"] != name] + [facts]

        self.about(change)

    def about(self, change: Callable[[Json], object]) -> None:
        """Change `submission.json`."""
        file = self.folder / "submission.json"
        content = json.loads(file.read_bytes())
        change(content)
        file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")

    def records(
        self, change: Callable[[list[Json]], list[Json] | None], run: str = "runs/r0"
    ) -> None:
        """Change a run's records, and its summary accordingly."""
        name = f"{run}/episodes.jsonl.zst"
        records = [json.loads(line) for line in self.read(name).splitlines()]
        changed = change(records)
        lines = [json.dumps(record) for record in (records if changed is None else changed)]
        self.write(name, "".join(f"{line}\n" for line in lines).encode())
        self.summarize(run)

    def manifest(
        self, change: Callable[[Json], object], run: str = "runs/r0", restate: bool = True
    ) -> None:
        """Change a run's manifest, and its fingerprint, overrides and summary accordingly."""
        name = f"{run}/run.json"
        fields = json.loads(self.read(name))
        change(fields)
        if restate:
            with suppress(ValidationError, UserError):
                panels = Manifest.model_validate_json(json.dumps(fields)).panels
                fields["fingerprint"] = run_fingerprint(panels)
                fields["overrides"] = overrides_of(panels)
        self.write(name, (json.dumps(fields, indent=2) + "\n").encode())
        self.summarize(run)

    def panel(self, **changes: Any) -> None:
        """Change the protocol of the first run's first panel."""
        self.manifest(lambda run: run["panels"][0].update(changes))

    def summarize(self, run: str) -> None:
        """Recompute a run's summary, if its records are valid."""
        lines = self.read(f"{run}/episodes.jsonl.zst").splitlines()
        with suppress(ValidationError, UserError):
            manifest = Manifest.model_validate_json(self.read(f"{run}/run.json"))
            records = [EpisodeRecord.model_validate_json(line) for line in lines]
            summary = summary_json(summarize(manifest, records))
            self.write(f"{run}/summary.json", summary.encode())

    def log(self, change: Callable[[list[Line]], list[Line] | None], seed: int = 0) -> None:
        """Change a training log."""
        name = f"training/s{seed}.jsonl.zst"
        lines = [json.loads(line) for line in self.read(name).splitlines()]
        changed = change(lines)
        texts = [json.dumps(line) for line in (lines if changed is None else changed)]
        self.write(name, "".join(f"{text}\n" for text in texts).encode())


def copied(folder: Path, to: Path) -> Copy:
    """A copy of a submission that may be modified."""
    target = to / folder.name
    shutil.copytree(folder, target, symlinks=True)
    return Copy(target)


@cache
def big_frame(size: int = 2**30) -> bytes:
    """This many zeros, compressed."""
    stored = pa.BufferOutputStream()
    with pa.CompressedOutputStream(stored, "zstd") as stream:
        for _ in range(size // 2**20):
            stream.write(bytes(2**20))
    content: bytes = stored.getvalue().to_pybytes()
    return content


def as_init(copy: Copy, digest: str | None) -> None:
    """Turn a trained submission into an init's, with the records of seed 0 only."""

    def change(about: Json) -> None:
        about["name"] = "The init"
        about["method"]["kind"] = "init"
        about["init"] = None
        about["checkpoints"] = about["checkpoints"][:1]
        about["checkpoints"][0]["training_log"] = None
        about["checkpoints"][0]["model"] = model
        kept = ("README.md", "runs/r0/")
        about["files"] = [file for file in about["files"] if file["path"].startswith(kept)]

    model = {"name": "tiny-sokoban", "kind": "init", "revision": None, "sha256": digest}
    for name in ("training/s0.jsonl.zst", "training/s1.jsonl.zst"):
        (copy.folder / name).unlink()
    for name in ("run.json", "episodes.jsonl.zst", "summary.json"):
        (copy.folder / "runs" / "r1" / name).unlink()
    copy.manifest(lambda run: run.update(model=model))
    copy.about(change)
