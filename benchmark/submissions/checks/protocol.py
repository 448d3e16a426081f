"""Checks that runs are complete, follow one protocol and use the stated model."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import combinations, product
from typing import Final

from benchmark.engines.core.names import DTYPES, ENGINES, LOADING, POLICIES
from benchmark.engines.core.scripted import SCRIPTED
from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.replay import installed_panel
from benchmark.evaluation.summary import PanelKey
from benchmark.models import ModelIdentity, same_files, same_weights
from benchmark.submissions.checks.context import Context
from benchmark.submissions.checks.declaration import check_dates
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.format.schema import SUBMISSION
from benchmark.submissions.format.texts import check_claims, skeleton
from benchmark.submissions.reading.entry import REMAKE, Entry, ReadRun
from benchmark.versions import PROGRAM
from tasks.errors import UserError
from tasks.seeding import canonical_json
from tasks.texts import on_one_line

_COMMIT = re.compile("[0-9a-f]{40}")
_WORDS: Final = re.compile(r"[A-Za-z][\w.-]{0,23}(:\d{1,3})?", re.ASCII)
"""An engine's name of its device or server program."""
_ARGUMENT: Final = re.compile(r"[!-~]{0,256}")
"""A name or string value in an engine's arguments."""
_MOST_FACTS: Final = 2_000
"""Maximum length of one fact about an engine as JSON, in characters."""
_OF_PLACES: Final = ("--model", "--lora", "--out")
"""Options that take folders, which may have any name."""
MOST_ERRORS: Final = 0.05
"""Maximum share of a run's episodes that ended in errors. A complete run has none; errors could
replace failures to hide that the failures are another run's."""
STANDARD = "play the panel as its protocol says, without --set, --temperature and the like"


def _is_word(said: object) -> bool:
    return isinstance(said, str) and bool(_WORDS.fullmatch(said))


def _is_argument(said: object) -> bool:
    if isinstance(said, dict):
        return all(map(_is_argument, (*said, *said.values())))
    if isinstance(said, list):
        return all(map(_is_argument, said))
    return not isinstance(said, str) or bool(_ARGUMENT.fullmatch(said))


_FACTS: Final[Mapping[str, Callable[[object], bool]]] = {
    "device": _is_word,
    "server": _is_word,
    "context": lambda said: type(said) is int,
    "opened": lambda said: said == "<think>",
    "model_args": lambda said: isinstance(said, dict) and _is_argument(said),
    "batch_invariant": lambda said: said is True,
}
"""Checks of the engine facts on an entry's page (`ENGINE_FACTS`), except kind and data type."""


def _odd(fact: str, said: object) -> str | None:
    """The fault of a fact about an engine; None if it is valid."""
    text = canonical_json(said)
    if not _FACTS[fact](said) or len(text) > _MOST_FACTS:
        if fact == "model_args":
            return (
                "can be shown only with texts of visible ASCII characters without blanks, at most "
                f"256 each, and {_MOST_FACTS:,} in all"
            )
        return f"is {on_one_line(repr(said))}, which no engine reports"
    try:
        check_claims(text)
    except ValueError as error:
        return str(error)
    return None


def check_protocol(entry: Entry, context: Context) -> list[Finding]:
    """Check everything about runs that needs no replay."""
    findings = [*check_dates(entry, datetime.now(UTC).date())]
    findings += [finding for run in entry.runs for finding in _check_run(run)]
    for point in entry.checkpoints:
        seen: dict[PanelKey, str] = {}
        for run in point.runs:
            # For hub models, runs also record a hash of the commit's files.
            if run.manifest.model.canonical != point.checkpoint.model.canonical:
                problem = f"{run.manifest.model.text}, but {SUBMISSION} says {_of(entry, run)}"
                fix = "all runs of a checkpoint must use its weights"
                findings.append(Finding(f"{run.path}/run.json", "model", problem, fix))
            for panel in run.manifest.panels:
                key = panel.task, panel.panel
                if key in seen:
                    problem = f"{panel.task}/{panel.panel} is also in {seen[key]}"
                    fix = "send each panel of a checkpoint once"
                    findings.append(Finding(f"{run.path}/run.json", "panels", problem, fix))
                seen[key] = run.path
    findings += _check_one_protocol(entry)
    findings += _check_same_panels(entry)
    findings += _check_models(entry, context.inits)
    return findings


def _check_run(run: ReadRun) -> Iterator[Finding]:
    name = f"{run.path}/run.json"
    manifest = run.manifest
    if manifest.shard is not None:
        fix = "join the shards with arlarena-bench merge"
        yield Finding(name, "shard", "is only a part of a run", fix)
    if manifest.limit is not None:
        fix = "play whole panels: the same eval command without --limit"
        yield Finding(name, "limit", f"is a quick look: {manifest.part}", fix)
    if manifest.command[:1] != (PROGRAM,):
        problem = f"begins with {manifest.command[:1]}, not with {PROGRAM}"
        fix = "create the folder with submit prepare, which writes the command correctly"
        yield Finding(name, "command", problem, fix)
    errors = sum(record.error is not None for record in run.records)
    if errors > MOST_ERRORS * len(run.records):
        problem = f"{errors} of {len(run.records)} episodes ended in errors"
        fix = "run it again: the same eval command retries episodes that ended in errors"
        yield Finding(f"{run.path}/episodes.jsonl.zst", "", problem, fix)
    yield from _check_engine(name, manifest)
    if manifest.overrides:
        changed = ", ".join(f"{key} = {value}" for key, value in manifest.overrides.items())
        yield Finding(name, "overrides", f"not the protocol's own values: {changed}", STANDARD)
    for protocol in manifest.panels:
        where = f"panels, {protocol.task}/{protocol.panel}"
        try:
            task, panel = installed_panel(protocol)
        except UserError as error:
            yield Finding(name, where, str(error), STANDARD)
            continue
        # Work is bounded by the number of records, whatever number of repeats is stated.
        episodes = {entry.id for entry in panel.entries}
        played = {
            record.key
            for record in run.records
            if (record.task, record.panel) == (protocol.task, protocol.panel)
        }
        extra = sorted(
            key for key in played if key[2] not in episodes or key[3] >= protocol.repeats
        )
        wanted = len(episodes) * protocol.repeats
        missing = wanted - (len(played) - len(extra))
        records = f"{run.path}/episodes.jsonl.zst"
        place = f"{task.info.name}/{panel.name}"
        if missing:
            first = next(
                key
                for episode in sorted(episodes)
                for repeat in range(protocol.repeats)
                if (key := (protocol.task, protocol.panel, episode, repeat)) not in played
            )
            problem = f"{missing} of {wanted} episodes are missing, the first is {first}"
            yield Finding(records, place, problem, "finish the run with the same eval command")
        if extra:
            problem = f"{len(extra)} episodes are not in the panel, the first is {extra[0]}"
            yield Finding(records, place, problem, REMAKE)


def _check_engine(name: str, manifest: Manifest) -> Iterator[Finding]:
    """Check that the engine fits the model's kind, also in the command."""
    model, engine = manifest.model, manifest.engine.get("kind")
    fix = "send the run as it was played"
    is_policy = model.kind == "policy"
    wanted: tuple[str, ...] = (SCRIPTED,) if is_policy else ENGINES
    if engine not in wanted:
        problem = f"is {engine!r}, but the model is of kind {model.kind}"
        yield Finding(name, "engine.kind", problem, fix)
    elif is_policy and manifest.engine.get("policy") != model.name:
        problem = f"is {manifest.engine.get('policy')!r}, but the model is {model.name!r}"
        yield Finding(name, "engine.policy", problem, fix)
    dtype = manifest.engine.get("dtype")
    if engine in LOADING and dtype not in DTYPES:
        yield Finding(name, "engine.dtype", f"is {dtype!r}, which is not a data type", fix)
    for fact in _FACTS:
        said = manifest.engine.get(fact)
        if said is not None and (odd := _odd(fact, said)) is not None:
            yield Finding(name, f"engine.{fact}", odd, fix)
    if not is_policy and "policy" in manifest.engine:
        yield Finding(name, "engine.policy", "is there, but the model is no policy", fix)
    named = (model.name,) if is_policy else ("auto", engine)
    for option, value in _options(manifest.command):
        if option == "--engine" and value not in named:
            problem = f"has the engine {value!r}, but the model is of kind {model.kind}"
        elif value in POLICIES and option not in _OF_PLACES and value not in named:
            problem = f"names the policy {value}, but the model is of kind {model.kind}"
        else:
            continue
        yield Finding(name, "command", problem, fix)


def _options(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options with their values, in either form: `--a b`, `--a=b`."""
    option = ""
    for word in command[1:]:
        head, joined, tail = word.partition("=")
        if word.startswith("-"):
            option = head
            if joined:
                yield option, tail
        else:
            yield option, word


def _check_one_protocol(entry: Entry) -> Iterator[Finding]:
    """Check that the entry belongs to one table of the board."""
    names = sorted({panel.public_name for run in entry.runs for panel in run.manifest.panels})
    if len(names) > 1:
        problem = f"the runs are of the protocols {' and '.join(names)}"
        yield Finding(SUBMISSION, "checkpoints", problem, "send one entry for each protocol")


def _check_same_panels(entry: Entry) -> Iterator[Finding]:
    """Check that all seeds have played the same panels under the same protocols."""
    first, *others = entry.checkpoints
    protocols = {key: panel.fingerprint for key, panel in first.panels.items()}
    for point in others:
        if {key: panel.fingerprint for key, panel in point.panels.items()} != protocols:
            problem = (
                f"seed {point.checkpoint.seed} played other panels or protocols than "
                f"seed {first.checkpoint.seed}"
            )
            fix = "evaluate all checkpoints on the same panels"
            yield Finding(SUBMISSION, "checkpoints", problem, fix)


def _check_models(entry: Entry, inits: Mapping[str, str | None]) -> Iterator[Finding]:
    kind = entry.submission.method.kind
    for number, point in enumerate(entry.checkpoints):
        model, where = point.checkpoint.model, f"checkpoints.{number}.model"
        if (model.kind == "policy") != (kind == "policy"):
            problem = f"has kind {model.kind}, but method.kind is {kind}"
            yield Finding(SUBMISSION, where, problem, "make them agree")
        elif model.kind != "policy" and not _identified(model):
            problem = f"{model.text}: the weights cannot be identified"
            fix = "evaluate a folder (--model DIR) or a hub model (--model OWNER/NAME)"
            yield Finding(SUBMISSION, where, problem, fix)
        elif (model.kind == "init") != (kind == "init"):
            problem = f"has kind {model.kind}, but method.kind is {kind}"
            yield Finding(SUBMISSION, where, problem, "make them agree")
        elif model.kind == "policy" and model.name not in POLICIES:
            problem = f"there is no policy {model.name!r}"
            yield Finding(SUBMISSION, where, problem, f"policies are {' and '.join(POLICIES)}")
        elif kind == "trained" and (known := _registered(model, inits)):
            problem = f"{model.text}: these are the weights of the init {known}"
            yield Finding(SUBMISSION, where, problem, "send trained weights")
        yield from _check_init(model, where, inits)
    yield from _check_start(entry, inits)
    for one, other in combinations(entry.checkpoints, 2):
        same = same_weights(one.checkpoint.model, other.checkpoint.model)
        noted = product(one.runs, other.runs)
        if same or any(same_files(a.manifest.model, b.manifest.model) for a, b in noted):
            seeds = f"{one.checkpoint.seed} and {other.checkpoint.seed}"
            problem = f"seeds {seeds} have the same weights"
            yield Finding(SUBMISSION, "checkpoints", problem, "send each checkpoint once")


def _check_start(entry: Entry, inits: Mapping[str, str | None]) -> Iterator[Finding]:
    """Check the init of training."""
    init = entry.submission.init
    if init is None:
        return
    if not _identified(init):
        problem, fix = f"{init.text}: the weights cannot be identified", "give its hash"
        yield Finding(SUBMISSION, "init", problem, fix)
    yield from _check_init(init, "init", inits)
    if init.kind != "init" and (known := _registered(init, inits)):
        problem = f"{init.text}: these are the weights of the init {known}"
        fix = f"use its registered name (kind init, name {known})"
        yield Finding(SUBMISSION, "init", problem, fix)
    elif init.kind != "init" and (known := _called(init, inits)):
        problem = f"{init.text} is called like the init {known}, which has other weights"
        yield Finding(SUBMISSION, "init", problem, "give it another name in init.name")
    equal = [p for p in entry.checkpoints if same_weights(p.checkpoint.model, init)]
    if equal:
        problem = f"seed {equal[0].checkpoint.seed} has the weights of the init"
        yield Finding(SUBMISSION, "checkpoints", problem, "send trained weights")


def _registered(model: ModelIdentity, inits: Mapping[str, str | None]) -> str | None:
    """The registered init with a model's weights, if any."""
    names = (name for name, sha256 in inits.items() if sha256 and sha256 == model.sha256)
    return next(names, None)


def _called(model: ModelIdentity, inits: Mapping[str, str | None]) -> str | None:
    """The registered init with a pinned hash whose name a model's name resembles, if any."""
    seen = skeleton(model.name)
    return next((name for name, sha256 in inits.items() if sha256 and skeleton(name) == seen), None)


def _check_init(
    model: ModelIdentity, where: str, inits: Mapping[str, str | None]
) -> Iterator[Finding]:
    if model.kind != "init":
        return
    if model.name not in inits:
        problem, fix = f"there is no init {model.name!r}", "use its registered name"
        yield Finding(SUBMISSION, where, problem, fix)
    elif inits[model.name] is None:
        problem = f"the registry has no hash of {model.name}: any weights could have this name"
        fix = "describe the weights (kind folder or hub, with their sha256)"
        yield Finding(SUBMISSION, where, problem, fix)
    elif inits[model.name] != model.sha256:
        problem = f"the init {model.name} has other weights: SHA-256 {inits[model.name]}"
        yield Finding(SUBMISSION, where, problem, "start from the registered init")


def _identified(model: ModelIdentity) -> bool:
    """Whether the weights are identified by a commit or a hash."""
    if model.kind == "hub":
        return model.revision is not None and bool(_COMMIT.fullmatch(model.revision))
    return model.kind in ("init", "folder") and model.sha256 is not None


def _of(entry: Entry, run: ReadRun) -> str:
    for point in entry.checkpoints:
        if run in point.runs:
            return point.checkpoint.model.text
    raise AssertionError("a run belongs to a checkpoint")
