"""The protocol: everything that can move a number, and its fingerprint.

Every panel of a run has a fingerprint of its own, so that results on one panel can be compared
between runs that played different sets of panels; a run's fingerprint covers all of its panels.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

from benchmark.engines.core.base import Sampling
from tasks.base import Task
from tasks.panels import Panel, PanelDefaults, PanelInfo
from tasks.registry import load_task
from tasks.seeding import canonical_json, sha256_text, stable_seed

NAME = "v1"
"""Name of the standard protocol: panels are played as `PanelInfo.standard` says."""

STANDARD_SEED = 0


@dataclass(frozen=True, slots=True)
class SamplingOverrides:
    """What a user may choose in the place of a panel's standard; None is the standard's value.

    Attributes:
        temperature: See `Sampling`; as the next three.
        top_p: Nucleus.
        top_k: Number of candidates.
        max_tokens: Longest response.
        repeats: Plays of every episode.
        seed: Base of all sampling seeds.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    repeats: int | None = None
    seed: int = STANDARD_SEED

    @classmethod
    def of(cls, protocol: "PanelProtocol") -> Self:
        """The choices that give a protocol again, whatever is standard."""
        return cls(**asdict(protocol.sampling), repeats=protocol.repeats, seed=protocol.seed)

    def over(self, standard: PanelDefaults) -> tuple[Sampling, int]:
        """Sampling and repeats: what was chosen, and the standard's for the rest."""
        chosen = {name: value for name, value in asdict(self).items() if value is not None}
        values = {**asdict(standard), **chosen}
        del values["seed"]
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

    # Read from outside by pydantic (run.json, submissions).
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}

    @classmethod
    def of(cls, task: Task, panel: Panel, choices: SamplingOverrides = STANDARD) -> "PanelProtocol":
        """Collect the protocol of a task's panel as installed here."""
        sampling, repeats = choices.over(panel.info.standard)
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
        )

    def __post_init__(self) -> None:
        """Give numbers one form: 0, 0.0 and -0.0 are one penalty and must have one hash."""
        object.__setattr__(self, "format_penalty", float(self.format_penalty) + 0.0)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON of all fields."""
        return _fingerprint({"protocol": NAME, **asdict(self)})

    @property
    def overrides(self) -> dict[str, Any]:
        """Settings that are not the standard protocol's, by name; empty for a standard run.

        A task's own settings have their task before their name: `webshop.compat`.
        """
        task = load_task(self.task)
        chosen = {**asdict(self.sampling), "repeats": self.repeats, "seed": self.seed}
        standard = {**asdict(_standard(task.panels().get(self.panel))), "seed": STANDARD_SEED}
        overrides = {name: value for name, value in chosen.items() if value != standard[name]}
        known = task.info.settings
        return overrides | {
            f"{self.task}.{name}": value
            for name, value in self.settings.items()
            if name not in known or value != known[name].default
        }

    def turn_seed(self, episode: str, repeat: int, turn: int) -> int:
        """Seed of one turn's draws, from (protocol, task, episode, repeat, turn) alone."""
        return stable_seed(self.fingerprint, self.task, episode, repeat, turn)


def _standard(panel: PanelInfo | None) -> PanelDefaults:
    """The standard of a panel; of one that is not installed, the usual one."""
    return panel.standard if panel is not None else PanelDefaults()


def overrides_of(panels: Iterable[PanelProtocol]) -> dict[str, Any]:
    """The overrides of all panels of a run."""
    return {name: value for panel in panels for name, value in panel.overrides.items()}


def run_fingerprint(panels: tuple[PanelProtocol, ...]) -> str:
    """Fingerprint of a run over several panels; their order does not matter."""
    return _fingerprint(sorted(panel.fingerprint for panel in panels))


def _fingerprint(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
