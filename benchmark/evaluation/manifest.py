"""The content of `run.json`: panels, model, engine and versions of a run; what tells two apart."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationInfo, field_validator

from benchmark.evaluation.protocol import (
    IMAGES,
    PIXELS,
    VIEW,
    PanelProtocol,
    differing_fields,
    overrides_of,
    run_fingerprint,
)
from benchmark.fields import Sha256
from benchmark.models import ModelIdentity
from tasks.errors import UserError
from tasks.seeding import canonical_json
from tasks.strict import Strict
from tasks.texts import counted

SCHEMA_VERSION: Final = 1
MAX_COUNT: Final = 10**9
"""Of episodes, turns and repeats of a panel: more is beyond any run, and any loop."""
ENGINE_FACTS = (
    *("kind", "policy", "dtype", "device", "context", "server", "opened"),
    *("model_args", "batch_invariant"),
)
"""What an engine says of itself that can move a number: one run has one value of each."""


class Shard(Strict):
    """Part `index` (from 1) of `count` of a run that was split over machines."""

    index: Annotated[int, Field(ge=1)]
    count: Annotated[int, Field(ge=1)]


class Manifest(Strict):
    """The content of `run.json`; written once, when the run starts.

    Attributes:
        schema_version: Version of this schema.
        fingerprint: The run's protocol fingerprint.
        panels: The protocol of every panel, in the order of play.
        overrides: Settings that are not the panels' protocols' own, by name.
        model: Which weights answer.
        engine: Facts of the engine (kind, data type, context, device).
        versions: Versions of this program, Python and the libraries that matter.
        command: The command line.
        created: Start of the run, ISO 8601, UTC.
        shard: Which part of the panels this folder holds; null for all.
        limit: A quick look: only so many episodes of every panel, the first ones; null for all.
    """

    schema_version: Literal[1]
    fingerprint: Sha256
    panels: Annotated[tuple[PanelProtocol, ...], Field(min_length=1, strict=False)]
    overrides: dict[str, Any]
    model: ModelIdentity
    engine: dict[str, Any]
    versions: dict[str, str]
    command: Annotated[tuple[str, ...], Field(strict=False)]
    created: str
    shard: Shard | None
    # Whole panels' run.json is as it was before there was a limit.
    limit: Annotated[int, Field(ge=1)] | None = Field(None, exclude_if=lambda limit: limit is None)

    @property
    def part(self) -> str | None:
        """Which part of its panels the run is, for people; None for whole panels."""
        parts = [f"first {counted(self.limit, 'episode')} of every panel"] if self.limit else []
        if self.shard:
            parts.append(f"shard {self.shard.index} of {self.shard.count}")
        return ", ".join(parts) or None

    def panel(self, task: str, panel: str) -> PanelProtocol:
        """The protocol of one panel.

        Raises:
            UserError: The run does not play it.
        """
        for protocol in self.panels:
            if (protocol.task, protocol.panel) == (task, panel):
                return protocol
        raise UserError(f"this run does not play {task}/{panel}")

    @field_validator("panels")
    @classmethod
    def _countable(cls, panels: tuple[PanelProtocol, ...]) -> tuple[PanelProtocol, ...]:
        for panel in panels:
            for name in ("episodes", "max_turns", "history_turns", "repeats"):
                if getattr(panel, name) > MAX_COUNT:
                    raise ValueError(f"{name} is more than {MAX_COUNT:,}")
        return panels

    @field_validator("overrides")
    @classmethod
    def _not_of_pixels(cls, overrides: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Leave out what `PIXELS` sets: runs from before it had a name list it."""
        images = [
            (f"{panel.task}.{VIEW}", IMAGES)
            for panel in info.data.get("panels", ())
            if panel.public_name == PIXELS
        ]
        return {name: value for name, value in overrides.items() if (name, value) not in images}

    @field_validator("engine", "overrides")
    @classmethod
    def _plain_json(cls, facts: dict[str, Any]) -> dict[str, Any]:
        canonical_json(facts)
        return facts

    def check(self) -> None:
        """Compare what the file states twice: fingerprint and overrides with the panels.

        Raises:
            UserError: They differ; the file was edited.
        """
        keys = {(panel.task, panel.panel) for panel in self.panels}
        if len(keys) != len(self.panels):
            raise UserError("run.json: a panel is listed twice; the file was edited")
        if run_fingerprint(self.panels) != self.fingerprint:
            raise UserError(
                "run.json: the fingerprint does not match the panels; the file was edited"
            )
        if overrides_of(self.panels) != self.overrides:
            raise UserError("run.json: the overrides do not match the panels; the file was edited")


def differing_facts(one: Manifest, other: Manifest) -> dict[str, tuple[object, object]]:
    """What keeps two manifests from being of one run, shards aside: both values, by name."""
    facts: dict[str, tuple[object, object]] = {
        "protocol": differing_protocols(one.panels, other.panels),
        "model": (one.model.text, other.model.text),
        "limit": (one.limit or "none", other.limit or "none"),
    }
    for fact in ENGINE_FACTS:
        facts[f"engine {fact}"] = (one.engine.get(fact), other.engine.get(fact))
    return {name: values for name, values in facts.items() if values[0] != values[1]}


def differing_protocols(
    one: Sequence[PanelProtocol], other: Sequence[PanelProtocol]
) -> tuple[str, str]:
    """What differs between the protocols of two runs, as each has it; the same if nothing does."""
    panels = [{(panel.task, panel.panel): panel for panel in side} for side in (one, other)]
    if panels[0].keys() != panels[1].keys():
        left, right = (", ".join("/".join(key) for key in side) for side in panels)
        return f"panels {left}", f"panels {right}"
    for key, panel in panels[0].items():
        if differing := differing_fields(panel, panels[1][key]):
            left, right = (
                ", ".join(f"{name} {values[side]}" for name, values in differing.items())
                for side in (0, 1)
            )
            return left, right
    return "", ""
