"""The protocol: everything that can change a result, and its fingerprint.

Every panel of a run has a fingerprint of its own, so that results on one panel can be compared
between runs that played different sets of panels; a run's fingerprint covers all of its panels.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field

from benchmark.engines.core.base import ChatOptions, Sampling
from benchmark.flat import flat
from tasks.base import Task
from tasks.errors import UserError
from tasks.options import Settings
from tasks.panels import Panel, PanelDefaults, PanelInfo
from tasks.registry import load_task, own_names
from tasks.seeding import canonical_json, sha256_text, stable_seed
from tasks.texts import value_text

ProtocolName = Literal["v1", "thinking-1"]
NAME: Final = "v1"
"""Name of the standard protocol: panels are played as `PanelInfo.standard` says."""
THINKING: Final = "thinking-1"
"""Name of the protocol for models that think before they answer: `thinking_standard`, and
`benchmark.evaluation.response_part` says what of a response is the answer."""
PIXELS: Final = "pixels-1"
"""Name of the protocol for vision-language models: `NAME`, with tasks shown as images. It is never
stored; the tasks' settings, which are, say it (`PanelProtocol.public_name`)."""
VIEW: Final = "view"
"""Setting of tasks that can be shown as images."""
IMAGES: Final = "pixels"
"""Its value for images."""
OPTIONS: Final = MappingProxyType({NAME: "standard", THINKING: "thinking", PIXELS: "pixels"})
"""What `eval --protocol` calls the protocols."""
LEAST_PLAYS: Final = 128
"""Plays of a panel under `THINKING`, whose draws are random, at least."""

STANDARD_SEED = 0


@dataclass(frozen=True, slots=True)
class SamplingOverrides:
    """What a user may choose instead of a panel's standard; None is the standard's value.

    Attributes:
        temperature: See `Sampling`; as the next three.
        top_p: Nucleus.
        top_k: Number of candidates.
        max_tokens: Longest response.
        repeats: Plays of every episode.
        seed: Base of all sampling seeds.
        protocol: Whose standard it is.
        chat_template_kwargs: Variables for the chat template.
        extra_body: Further fields of requests to servers.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    repeats: int | None = None
    seed: int = STANDARD_SEED
    protocol: ProtocolName = NAME
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    extra_body: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, protocol: "PanelProtocol") -> Self:
        """The choices that give a protocol again, whatever is standard."""
        return cls(
            **asdict(protocol.sampling),
            repeats=protocol.repeats,
            seed=protocol.seed,
            protocol=protocol.name,
            chat_template_kwargs=protocol.chat_template_kwargs,
            extra_body=protocol.extra_body,
        )

    def over(self, standard: PanelDefaults) -> tuple[Sampling, int]:
        """Sampling and repeats: what was chosen, and the standard's for the rest."""
        values = asdict(standard)
        chosen = {name: getattr(self, name) for name in values}
        values |= {name: value for name, value in chosen.items() if value is not None}
        repeats = values.pop("repeats")
        return Sampling(**values), repeats


STANDARD = SamplingOverrides()
"""The standard protocol."""


@dataclass(frozen=True)
class PanelProtocol:
    """Everything that can move a number on one panel.

    Attributes:
        task: Task name.
        task_version: The task's rules and texts.
        panel: Panel name.
        panel_sha256: Hash of the panel's file.
        episodes: Number of entries.
        max_turns: Turn limit.
        history_turns: Past turns in the prompt.
        format_penalty: Cost of a turn that is not valid.
        contract: Rule that reads responses.
        prompt_sha256: Hash of the prompt's template.
        trace_sha256: Hash of what the scripted policies saw and earned: the world's behavior; None
            where it was not measured.
        settings: The task's own settings that can move a number.
        packages: Versions of the packages that the world depends on.
        sampling: How tokens are drawn.
        repeats: Plays of every episode.
        seed: Base of all sampling seeds.
        name: The protocol's stored name; people see `public_name`.
        chat_template_kwargs: Variables for the chat template, where some were chosen.
        extra_body: Further fields of requests to servers, likewise.
    """

    task: str
    task_version: str
    panel: str
    panel_sha256: str
    episodes: int
    max_turns: int
    history_turns: int
    format_penalty: float
    contract: str
    prompt_sha256: str
    trace_sha256: str | None
    settings: dict[str, str]
    packages: dict[str, str]
    sampling: Sampling
    repeats: int = 1
    seed: int = STANDARD_SEED
    # Of the standard protocol's runs, run.json is as it was before there were others.
    name: Annotated[ProtocolName, Field(exclude_if=lambda name: name == NAME)] = NAME
    chat_template_kwargs: Annotated[dict[str, Any], Field(exclude_if=lambda v: not v)] = field(
        default_factory=dict
    )
    extra_body: Annotated[dict[str, Any], Field(exclude_if=lambda v: not v)] = field(
        default_factory=dict
    )

    # Read from outside by pydantic (run.json, submissions).
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}

    @classmethod
    def of(cls, task: Task, panel: Panel, choices: SamplingOverrides = STANDARD) -> "PanelProtocol":
        """Collect the protocol of a task's panel as installed here."""
        sampling, repeats = choices.over(_standard(choices.protocol, panel.info))
        return cls(
            task=task.info.name,
            task_version=task.info.version,
            panel=panel.name,
            panel_sha256=panel.info.sha256,
            episodes=len(panel.entries),
            max_turns=panel.info.max_turns,
            history_turns=task.info.history_turns,
            format_penalty=task.info.format_penalty,
            contract=task.contract(),
            prompt_sha256=sha256_text(task.prompt_template()),
            trace_sha256=panel.info.trace_sha256,
            settings=dict(task.settings()),
            packages=dict(task.packages()),
            sampling=sampling,
            repeats=repeats,
            seed=choices.seed,
            name=choices.protocol,
            chat_template_kwargs=dict(choices.chat_template_kwargs),
            extra_body=dict(choices.extra_body),
        )

    def __post_init__(self) -> None:
        """Give numbers one form: 0, 0.0 and -0.0 are one penalty and must have one hash."""
        object.__setattr__(self, "format_penalty", float(self.format_penalty) + 0.0)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON of all fields; what was not chosen is not in it."""
        return _fingerprint({"protocol": self.name, **self.facts})

    @property
    def facts(self) -> dict[str, Any]:
        """All fields as plain values but the name; without what no standard run has."""
        facts = asdict(self)
        del facts["name"]
        for chosen in ("chat_template_kwargs", "extra_body"):
            if not facts[chosen]:
                del facts[chosen]
        return facts

    @property
    def public_name(self) -> str:
        """The protocol's name for people and on the board; `PIXELS` follows from the settings."""
        images = self.settings.get(VIEW) == IMAGES
        return PIXELS if images and self.name == NAME else self.name

    @property
    def chat(self) -> ChatOptions:
        """How messages become a prompt and an answer becomes a response."""
        return ChatOptions(self.chat_template_kwargs, self.extra_body, self.name == THINKING)

    @property
    def usual(self) -> dict[str, Any]:
        """Sampling, repeats and seed that the named protocol has for this panel, by name."""
        panel = load_task(self.task).panels().get(self.panel)
        return {**asdict(_standard(self.name, panel)), "seed": STANDARD_SEED}

    @property
    def overrides(self) -> dict[str, Any]:
        """Settings that are not the named protocol's, by name; empty for a standard run.

        A task's own settings have their task before their name: `webshop.compat`.
        """
        task = load_task(self.task)
        chosen = {**asdict(self.sampling), "repeats": self.repeats, "seed": self.seed}
        standard = self.usual
        overrides = {name: value for name, value in chosen.items() if value != standard[name]}
        given = {
            "chat_template_kwargs": self.chat_template_kwargs,
            "extra_body": self.extra_body,
        }
        overrides |= {name: value for name, value in given.items() if value}
        settings = {name: setting.default for name, setting in task.info.settings.items()}
        if self.public_name == PIXELS:
            settings[VIEW] = IMAGES
        return overrides | {
            f"{self.task}.{name}": value
            for name, value in self.settings.items()
            if value != settings.get(name)
        }

    def turn_seed(self, episode: str, repeat: int, turn: int) -> int:
        """Seed of one turn's draws, from (protocol, task, episode, repeat, turn) alone."""
        return stable_seed(self.fingerprint, self.task, episode, repeat, turn)


def differing_fields(one: PanelProtocol, other: PanelProtocol) -> dict[str, tuple[str, str]]:
    """The fields in which two protocols of a panel differ: both values for people, by name."""
    fields = [flat(asdict(protocol)) for protocol in (one, other)]
    values = {name: (fields[0].get(name), fields[1].get(name)) for name in (*fields[0], *fields[1])}
    return {name: (_value(a), _value(b)) for name, (a, b) in values.items() if a != b}


def _value(value: Any) -> str:
    return "absent" if value is None else value_text(value)


def _standard(protocol: ProtocolName, panel: PanelInfo | None) -> PanelDefaults:
    """A protocol's standard for a panel; of one that is not installed, the usual one."""
    if protocol == THINKING:
        return thinking_standard(panel)
    return panel.standard if panel is not None else PanelDefaults()


def thinking_standard(panel: PanelInfo | None) -> PanelDefaults:
    """How `THINKING` plays a panel.

    Temperature 0.6 and top-p 0.95 are what DeepSeek-R1 and Qwen3 name for thinking; both warn
    against greedy decoding. There is no top-k, which servers other than vLLM do not take. A small
    panel is played as often as it takes to come to `LEAST_PLAYS`.
    """
    plays = math.ceil(LEAST_PLAYS / panel.episodes) if panel is not None else 1
    usual = panel.standard.repeats if panel is not None else 1
    return PanelDefaults(max_tokens=8192, temperature=0.6, top_p=0.95, repeats=max(usual, plays))


def with_images(chosen: Settings, tasks: Iterable[str]) -> Settings:
    """Settings of tasks, each of which is shown as images.

    Args:
        chosen: What the user has chosen, by task.
        tasks: Names of the tasks.

    Raises:
        UserError: A task cannot be, or another view of it was chosen.
    """
    settings = dict(chosen)
    for task in tasks:
        if not _shows_images(task):
            able = ", ".join(filter(_shows_images, own_names()))
            raise UserError(
                f"{task} cannot be shown as images; --protocol pixels plays tasks that can: "
                f"--task {able}"
            )
        own = chosen.get(task, {})
        if own.get(VIEW, IMAGES) != IMAGES:
            raise UserError(
                f"--set {task}.{VIEW}={own[VIEW]} contradicts --protocol pixels; "
                "leave one of them out"
            )
        settings[task] = {**own, VIEW: IMAGES}
    return settings


def _shows_images(task: str) -> bool:
    view = load_task(task).info.settings.get(VIEW)
    return view is not None and IMAGES in view.choices


def protocol_text(panels: Iterable[PanelProtocol]) -> str:
    """The protocols of a run's panels as `--protocol` calls them: `standard`."""
    return " and ".join(dict.fromkeys(OPTIONS[panel.public_name] for panel in panels))


def overrides_of(panels: Iterable[PanelProtocol]) -> dict[str, Any]:
    """The overrides of all panels of a run."""
    return {name: value for panel in panels for name, value in panel.overrides.items()}


def run_fingerprint(panels: tuple[PanelProtocol, ...]) -> str:
    """Fingerprint of a run over several panels; their order does not matter."""
    return joint_fingerprint(panel.fingerprint for panel in panels)


def joint_fingerprint(fingerprints: Iterable[str]) -> str:
    """Fingerprint of a run over panels with these fingerprints."""
    return _fingerprint(sorted(fingerprints))


def _fingerprint(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
