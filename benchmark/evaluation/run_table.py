"""Several runs side by side: success of every model on every panel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.protocol import differing_fields
from benchmark.evaluation.records import EpisodeRecord
from benchmark.evaluation.summarize import summarize
from benchmark.evaluation.summary import PanelKey, PanelSummary
from tasks.errors import UserError


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run in a table.

    Attributes:
        name: Its name, such as its folder.
        manifest: Its manifest.
        panels: Its numbers by panel.
    """

    name: str
    manifest: Manifest
    panels: Mapping[PanelKey, PanelSummary]


@dataclass(frozen=True, slots=True)
class RunTable:
    """Runs by panels.

    Attributes:
        rows: The runs, in the order they were given.
        columns: All panels that any run played, in the order of their first run.
    """

    rows: tuple[RunRow, ...]
    columns: tuple[PanelKey, ...]

    @classmethod
    def of(
        cls,
        runs: Sequence[tuple[str, Manifest, Sequence[EpisodeRecord]]],
        across_protocols: bool = False,
    ) -> "RunTable":
        """Create the table.

        Args:
            runs: Name, manifest and records of each run.
            across_protocols: Allow different protocols.

        Raises:
            UserError: Two runs played a panel under different protocols, or a run contains records
                of another.
        """
        rows = []
        for name, manifest, records in runs:
            panels = {(p.task, p.panel): p for p in summarize(manifest, records).panels}
            rows.append(RunRow(name, manifest, panels))
        table = cls(tuple(rows), tuple(dict.fromkeys(key for row in rows for key in row.panels)))
        for column in () if across_protocols else table.columns:
            table._check_same_protocol(column)
        return table

    def _check_same_protocol(self, column: PanelKey) -> None:
        played = [row for row in self.rows if column in row.panels]
        first = played[0].manifest.panel(*column)
        for other in played[1:]:
            if differing := differing_fields(first, other.manifest.panel(*column)):
                name, (here, there) = next(iter(differing.items()))
                raise UserError(
                    f"{'/'.join(column)} was played under different protocols: {name} is {here} in "
                    f"{played[0].name} and {there} in {other.name}; only runs of the same protocol "
                    "can be compared"
                )

    def facts(self) -> list[dict[str, Any]]:
        """One flat row of plain values per run and panel, for programs and data frames."""
        return [
            {
                "run": row.name,
                "model": row.manifest.model.name,
                "model_kind": row.manifest.model.kind,
                "sha256": row.manifest.model.sha256,
                "engine": row.manifest.engine.get("kind"),
                "task": panel.task,
                "panel": panel.panel,
                "protocol": row.manifest.panel(panel.task, panel.panel).public_name,
                "fingerprint": panel.fingerprint,
                "part": row.manifest.part,
                "episodes": panel.success.episodes,
                "plays": panel.records,
                "expected": panel.expected,
                "errors": panel.errors,
                "success": panel.success.value,
                "success_low": panel.success.low,
                "success_high": panel.success.high,
                "score": panel.score.value,
                "score_unit": panel.score_unit,
                "return": panel.episode_return.value,
                "format_valid": panel.format_valid,
                "action_valid": panel.action_valid,
                "truncated": panel.truncated,
                "turns": panel.turns,
                "response_tokens": panel.response_tokens,
            }
            for row in self.rows
            for panel in row.panels.values()
        ]
