"""The lines of a training log: their strict schemas and their order."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, ValidationError, model_validator
from pydantic_core import SchemaValidator, core_schema, from_json

from benchmark.fields import Number, Sha256
from benchmark.logs.metrics import METRICS, metric_of
from benchmark.models import ModelIdentity
from tasks.seeding import canonical_json
from tasks.strict import Strict, first_fault, whole_number

SCHEMA_VERSION: Final = 1
MAX_LINE = 2**20
"""Longest accepted line, in bytes."""
ROUNDING = 1e-6
"""How far a number may leave its range through float32 rounding."""
_MAX_UPDATE = 10**9
_MAX_SECONDS = 1e12

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+@-]{0,99}")
WORD_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.+@-]*$"
Word = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=WORD_PATTERN)]
MAX_PLUGINS: Final = 16
"""Maximum plug-ins named in a log."""
PluginName = Annotated[
    str, StringConstraints(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+@-]*$")
]
_Update = Annotated[int, Field(ge=0, le=_MAX_UPDATE)]
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_Seconds = Annotated[float, Field(ge=0, le=_MAX_SECONDS, allow_inf_nan=False)]


def _plain_json(facts: dict[str, Any]) -> dict[str, Any]:
    json.loads(canonical_json(facts), parse_int=whole_number)
    return facts


_Facts = Annotated[dict[str, Any], AfterValidator(_plain_json)]


FREE: Final = frozenset(
    {
        "checkpoint_every",
        "optimization.gradient_checkpointing",
        "optimization.micro_batch_tokens",
        "rollout.concurrency",
    }
)
"""Settings that do not affect results; hashes and comparisons ignore them."""
OPEN: Final = "open"
"""Shown instead of a track's name for runs without a track."""


class TrackClaim(Strict):
    """The track that a run claims (`benchmark.track_schema`).

    Attributes:
        name: Name of the track.
        sha256: Hash of the track's content when the run began.
    """

    name: Word
    sha256: Sha256


def track_name(claim: TrackClaim | None) -> str:
    """The displayed track of a run or an entry: its name, or `OPEN`."""
    return OPEN if claim is None else claim.name


class Start(Strict):
    """The first and only start line of a log. A resumed run may add a `Resume` line instead.

    Attributes:
        kind: Always `start`.
        schema_version: Version of this schema.
        created: Start of the run, ISO 8601, UTC.
        recipe: Name of the recipe.
        configuration: The resolved configuration: everything that can affect a result, but no
            output paths. Runs with the same plug-ins whose configurations differ only in `seed` and
            `FREE` are seeds of one curve.
        task: Name of the training task.
        init: The initial weights.
        fingerprint: Protocol fingerprint of the validations.
        seed: Seed of the run.
        engine: Facts about the rollouts' engine.
        versions: Versions of this program, Python and relevant libraries.
        track: The track that pins everything but the method; null, and absent in older logs, for an
            open run.
        plugins: SHA-256 of the files with the code of the run's plug-ins, by file or module name;
            absent if the run had none.
    """

    kind: Literal["start"] = "start"
    schema_version: Literal[1] = SCHEMA_VERSION
    created: Annotated[
        str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|\+00:00)$")
    ]
    recipe: Word
    configuration: _Facts
    task: Word
    init: ModelIdentity
    fingerprint: Sha256
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    engine: _Facts
    versions: dict[str, str]
    track: TrackClaim | None = None
    plugins: Annotated[dict[PluginName, Sha256], Field(max_length=MAX_PLUGINS)] = Field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class Update:
    """An update line.

    Attributes:
        update: Its number, from 1.
        seconds_total: Compute since the run began, over all sessions.
        values: The measured numbers of `METRICS`, and those of single tasks.
        nonfinite: Names of measured numbers that are not finite.
    """

    update: int
    seconds_total: float
    values: Mapping[str, float]
    nonfinite: tuple[str, ...] = ()


class Validation(Strict):
    """A validation line: one panel, played by the policy after an update.

    Attributes:
        kind: Always `validation`.
        update: The preceding update; 0 is the init.
        panel: Name of the panel.
        episodes: Episodes played: all of the panel.
        success: Success rate.
        score: Mean score, in the task's unit.
        format_ok: Share of responses in the required format.
        action_ok: Share of responses whose action the environment accepts.
        turns: Mean number of turns.
        fingerprint: The panel's protocol fingerprint, constant within a log.
        wilson_low: Lower end of the success rate's 95% Wilson interval.
        wilson_high: Upper end.
        seconds_total: Compute since the run began, over all sessions.
    """

    kind: Literal["validation"] = "validation"
    update: _Update
    panel: Word
    episodes: Annotated[int, Field(ge=1, le=10**9)]
    success: _Share
    score: Number
    format_ok: _Share
    action_ok: _Share
    turns: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
    fingerprint: Sha256
    wilson_low: _Share
    wilson_high: _Share
    seconds_total: _Seconds

    @model_validator(mode="after")
    def _interval_holds(self) -> Self:
        if not self.wilson_low - ROUNDING <= self.success <= self.wilson_high + ROUNDING:
            raise ValueError("the success rate is outside its interval")
        return self


class Resume(Strict):
    """The engine and versions of a session, if they differ from the previous session's.

    The session writes it before its first other line.

    Attributes:
        kind: Always `resume`.
        update: The update after which it continues.
        engine: Facts about the rollouts' engine.
        versions: See `Start`.
    """

    kind: Literal["resume"] = "resume"
    update: _Update
    engine: _Facts
    versions: dict[str, str]


Line = Start | Update | Validation | Resume


class Order:
    """Checks that each line of a log is consistent with the lines before it."""

    def __init__(self) -> None:
        self._started = False
        self._update = 0
        self._last: dict[str, tuple[int, float]] = {}
        self._fingerprints: dict[str, str] = {}

    def add(self, line: Line) -> None:
        """Take one more line.

        Raises:
            ValueError: It is not allowed here; the state is unchanged.
        """
        # Most lines are updates, which are cheap to check; others go through pydantic's metaclass.
        start = not isinstance(line, Update) and isinstance(line, Start)
        if self._started == start:
            raise ValueError("kind: only the first line of a log is a start line")
        if isinstance(line, Start):
            self._started = True
            return
        if isinstance(line, Resume):
            if line.update != self._update:
                raise ValueError(f"update: {line.update} resumes after update {self._update}")
            return
        series = "update" if isinstance(line, Update) else f"validation of {line.panel}"
        update, seconds = self._last.get(series, (-1, 0.0))
        if line.update <= update:
            raise ValueError(f"update: {series} {line.update} comes after {series} {update}")
        if line.update < self._update:
            raise ValueError(f"update: {line.update} comes after update {self._update}")
        if line.seconds_total < seconds:
            raise ValueError(f"seconds_total: {line.seconds_total} comes after {seconds}")
        if not isinstance(line, Update):
            if line.fingerprint != self._fingerprints.get(line.panel, line.fingerprint):
                raise ValueError(f"fingerprint: {series} had another protocol before")
            self._fingerprints[line.panel] = line.fingerprint
        self._update = line.update
        self._last[series] = line.update, line.seconds_total


def _update_schema(single_tasks: bool) -> core_schema.CoreSchema:
    """The fields of an update line; with `single_tasks`, also numbers with any other name."""
    fields: dict[str, core_schema.CoreSchema] = {
        "kind": core_schema.literal_schema(["update"]),
        "update": core_schema.int_schema(ge=1, le=_MAX_UPDATE, strict=True),
        "seconds_total": core_schema.float_schema(
            ge=0, le=_MAX_SECONDS, allow_inf_nan=False, strict=True
        ),
    }
    optional: dict[str, core_schema.CoreSchema] = {
        "nonfinite": core_schema.list_schema(
            core_schema.literal_schema(list(METRICS)), min_length=1, max_length=len(METRICS)
        )
    }
    for name, metric in METRICS.items():
        low, high = metric.range
        number = core_schema.float_schema(ge=low, le=high, allow_inf_nan=False, strict=True)
        optional[name] = core_schema.nullable_schema(number)
    return core_schema.typed_dict_schema(
        {name: core_schema.typed_dict_field(schema) for name, schema in fields.items()}
        | {
            name: core_schema.typed_dict_field(schema, required=False)
            for name, schema in optional.items()
        },
        extra_behavior="allow" if single_tasks else "forbid",
        extras_schema=core_schema.nullable_schema(
            core_schema.float_schema(allow_inf_nan=False, strict=True)
        )
        if single_tasks
        else None,
    )


_UPDATE = SchemaValidator(_update_schema(single_tasks=False))
_UPDATE_OF_TASKS = SchemaValidator(_update_schema(single_tasks=True))
_NOT_NUMBERS = frozenset({"kind", "update", "seconds_total", "nonfinite"})
_PLACE = re.compile(r" at line 1 column (\d+)$")
_UPDATE_BEGINS = b'{"kind":"update"', b'{"kind": "update"'
_VALIDATION_BEGINS = b'{"kind":"validation"', b'{"kind": "validation"'


def parse_line(content: bytes) -> Line:
    """Read one line.

    Raises:
        ValueError: It breaks the schema; the message names the field.
    """
    if len(content) > MAX_LINE:
        raise ValueError(f"longer than {MAX_LINE} bytes")
    try:
        # Lines of our own logs begin this way. Parsing and checking in one step takes half the
        # time; refused lines, and all others, go through the steps that report what is wrong.
        if content.startswith(_UPDATE_BEGINS):
            return _update(_UPDATE.validate_json(content))
        if content.startswith(_VALIDATION_BEGINS):
            return Validation.model_validate_json(content)
    except ValidationError:
        return _line(content)
    return _line(content)


def _json_fault(content: bytes, said: str) -> str:
    """A parser's message about a line, without the line number, which is always 1."""
    found = _PLACE.search(said)
    if found is None:
        return said
    column = int(found[1])
    # The column points to the first letter of a value, after any minus sign.
    begins = content[max(column - 1, 0) :].lstrip(b"-")
    for word in (b"NaN", b"Infinity"):
        if begins.startswith(word):
            return f"{word.decode()} at column {column}, where JSON has null"
    return f"{said[: found.start()]} at column {column}"


def _line(content: bytes) -> Line:
    """Like `parse_line`, in two steps: JSON, then the schema."""
    try:
        fields = from_json(content.rstrip(b"\r\n"), allow_inf_nan=False)
    except ValueError as error:
        raise ValueError(f"not JSON: {_json_fault(content, str(error))}") from error
    kind = fields.get("kind") if isinstance(fields, dict) else None
    try:
        match kind:
            case "start":
                return Start.model_validate(fields)
            case "validation":
                return Validation.model_validate(fields)
            case "resume":
                return Resume.model_validate(fields)
            case "update":
                fields = _UPDATE_OF_TASKS.validate_python(fields)
                for name in fields.keys() - METRICS.keys() - _NOT_NUMBERS:
                    _check_of_task(name, fields[name])
                return _update(fields)
    except ValidationError as error:
        raise ValueError(first_fault(error)) from error
    raise ValueError("kind: must be start, update, validation or resume")


def _update(fields: dict[str, Any]) -> Update:
    """Build the line from valid fields, which it takes over."""
    del fields["kind"]
    update, seconds_total = fields.pop("update"), fields.pop("seconds_total")
    nonfinite = tuple(fields.pop("nonfinite", ()))
    for name in [name for name, value in fields.items() if value is None]:
        del fields[name]
    if nonfinite and (
        len(set(nonfinite)) < len(nonfinite) or not fields.keys().isdisjoint(nonfinite)
    ):
        raise ValueError("nonfinite: a name is listed twice or has a number")
    return Update(update, seconds_total, fields, nonfinite)


def _check_of_task(name: str, value: float | None) -> None:
    """Check a number of a single task.

    Raises:
        ValueError: There is no such number, or it is outside its range.
    """
    metric = metric_of(name)
    if metric is None or not _WORD.fullmatch(name.partition("@")[2]):
        raise ValueError(f"{name}: Extra inputs are not permitted")
    low, high = metric.range
    if value is not None and not low <= value <= high:
        raise ValueError(f"{name}: must be from {low:g} to {high:g}")
