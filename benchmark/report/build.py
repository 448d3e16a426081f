"""Assembles the report."""

import base64
import hashlib
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.protocol import PanelProtocol, protocol_text
from benchmark.evaluation.records import EpisodeRecord
from benchmark.evaluation.summary import MeanInterval, PanelSummary, RunSummary
from benchmark.html_text import finalized, number, percent
from benchmark.report.episodes import pack_episodes
from benchmark.report.figures import Figure, interval_figure, panel_figures

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class PanelView:
    """One panel's section.

    Attributes:
        summary: The panel's metrics.
        protocol: The protocol of the run on this panel.
        key: Id of the section.
        ruler: The headline's interval on a ruler; empty without records.
        figures: The panel's figures; empty without records.
    """

    summary: PanelSummary
    protocol: PanelProtocol
    key: str
    ruler: Markup
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Speed:
    """Speed over all sessions; None if no session recorded it.

    Attributes:
        wall_s: Seconds of work.
        tokens_per_second: Response tokens per second of wall time.
        idle_share: Share of the time with no request in flight.
    """

    wall_s: float | None
    tokens_per_second: float | None
    idle_share: float | None


def report_html(
    manifest: Manifest,
    records: Sequence[EpisodeRecord],
    summary: RunSummary,
    sessions: Sequence[Mapping[str, Any]],
    env_processes: int | None = None,
) -> str:
    """Render a run's report: one HTML file that loads nothing and works offline.

    The output is deterministic. Text from models and files is always inserted as text, never as
    markup; the page's content security policy forbids everything but its one script and style
    sheet.

    Args:
        manifest: The run.
        records: All its records. They are replayed to get the observations, which records lack.
        summary: The summary of these records.
        sessions: Lines of `sessions.jsonl`; none of their content is trusted.
        env_processes: See `replay_run`.

    Raises:
        UserError: A record belongs to a panel that is not part of the run.
    """
    style = (_FOLDER / "report.css").read_text("utf-8")
    script = "".join((_FOLDER / name).read_text("utf-8") for name in ("page.js", "report.js"))
    episodes = pack_episodes(manifest, records, summary, env_processes=env_processes)
    return _template().render(
        manifest=manifest,
        summary=summary,
        panels=_panels(manifest, summary),
        episodes=episodes,
        protocol=protocol_text(manifest.panels),
        protocol_names=" and ".join(dict.fromkeys(p.public_name for p in manifest.panels)),
        command=shlex.join(manifest.command),
        sessions=[_session(session) for session in sessions],
        speed=_speed(sessions),
        style=Markup(style),  # noqa: S704 - a file of this package
        script=Markup(script),  # noqa: S704 - likewise
        policy=_policy(style, script),
    )


@cache
def _template() -> Template:
    """The page's template, compiled once."""
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": percent,
        "number": number,
        "interval": _interval,
        "spread": _spread,
        "fact": _fact,
        "moment": _moment,
    }
    return environment.get_template("report.html.j2")


def _policy(style: str, script: str) -> str:
    """A content security policy that loads nothing and allows only these two texts."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_source_hash(script)}'",
            f"style-src '{_source_hash(style)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def _source_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _panels(manifest: Manifest, summary: RunSummary) -> list[PanelView]:
    views = []
    for index, panel in enumerate(summary.panels, 1):
        key = f"panel-{index}"
        protocol = manifest.panel(panel.task, panel.panel)
        success = panel.success
        ruler, figures = Markup(""), tuple[Figure, ...]()
        if panel.records:
            ruler = interval_figure(success.value, success.low, success.high, f"{key}-ruler")
            figures = panel_figures(panel, key, protocol.max_turns, protocol.repeats)
        views.append(PanelView(panel, protocol, key, ruler, figures))
    return views


def _speed(sessions: Sequence[Mapping[str, Any]]) -> Speed:
    walls = [_amount(session.get("wall_s")) for session in sessions]
    tokens = [_amount(session.get("response_tokens")) for session in sessions]
    idle = [_amount(session.get("idle_share")) for session in sessions]
    if not walls or None in walls or not sum(wall or 0 for wall in walls):
        return Speed(None, None, None)
    wall = math.fsum(wall or 0 for wall in walls)
    per_second = None if None in tokens else math.fsum(count or 0 for count in tokens) / wall
    if None in idle:
        return Speed(wall, per_second, None)
    weighted = math.fsum((i or 0) * (w or 0) for i, w in zip(idle, walls, strict=True))
    return Speed(wall, per_second, weighted / wall)


def _session(session: Mapping[str, Any]) -> dict[str, str]:
    """Format one line of `sessions.jsonl` as cells."""
    wall, tokens = _amount(session.get("wall_s")), _amount(session.get("response_tokens"))
    idle = _amount(session.get("idle_share"))
    return {
        "started": _fact(session.get("started", "\u2013")),
        "ended": _fact(session.get("ended", "\u2013")),
        "episodes": number(_amount(session.get("episodes")), 0),
        "seconds": number(wall, 1),
        "in flight": number(_amount(session.get("concurrency")), 0),
        "requests": number(_amount(session.get("requests")), 0),
        "tokens/s": number(tokens / wall if tokens is not None and wall else None, 0),
        "idle": "\u2013" if idle is None else percent(idle),
    }


def _amount(value: Any) -> float | None:
    """Return a non-negative number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 1e15 else None


def _interval(estimate: MeanInterval) -> str:
    return f"{percent(estimate.low)} to {percent(estimate.high)}"


def _spread(estimate: MeanInterval) -> str:
    return f"{number(estimate.low)} to {number(estimate.high)}"


def _moment(text: str) -> str:
    """Format an ISO 8601 time in UTC for people; leave anything else unchanged."""
    try:
        return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError):
        return text


def _fact(value: Any) -> str:
    """Format any JSON value as text."""
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
