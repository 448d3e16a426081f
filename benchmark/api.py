"""Evaluating and reading runs from Python: the API of `import benchmark`.

Importing this module loads no large library; pandas is imported when a table is requested, torch
and vLLM when a model is loaded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tasks.errors import UserError

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

    from benchmark.evaluation.compare import RunComparison
    from benchmark.evaluation.manifest import Manifest
    from benchmark.evaluation.records import EpisodeRecord, TurnRecord
    from benchmark.evaluation.summary import RunSummary

PathLike = str | Path


@dataclass(frozen=True)
class Run:
    """The contents of a run folder.

    Attributes:
        path: The folder.
        manifest: Its `run.json`: model, engine, protocol, versions.
        records: Its episodes, each with its turns.
        summary: All metrics, computed from the records.
    """

    path: Path
    manifest: "Manifest"
    records: "tuple[EpisodeRecord, ...]"
    summary: "RunSummary"

    def to_frame(self, rows: Literal["episodes", "turns"] = "episodes") -> "pd.DataFrame":
        """The records as a pandas table.

        Args:
            rows: `episodes` for one row per play, `turns` for one row per turn, with the prompt's
                hash, the response and its effect.

        Raises:
            UserError: pandas is not installed.
            ValueError: `rows` is neither of these.
        """
        if rows not in ("episodes", "turns"):
            raise ValueError(f"rows must be 'episodes' or 'turns', not {rows!r}")
        plays = [(_episode(record), record.turns) for record in self.records]
        if rows == "episodes":
            return _frame([{**play, "turns": len(turns)} for play, turns in plays])
        key = ("task", "panel", "episode", "repeat", "category")
        return _frame(
            [
                {**{name: play[name] for name in key}, "turn": number, **_turn(turn)}
                for play, turns in plays
                for number, turn in enumerate(turns, 1)
            ]
        )

    def __repr__(self) -> str:
        """One line: the model, and success on every panel."""
        found = ", ".join(f"{p.task}/{p.panel} {p.success.percent}" for p in self.summary.panels)
        return f"Run({str(self.path)!r}: {self.manifest.model.text}: {found})"


@dataclass(frozen=True)
class Comparison:
    """Several runs on the same panels.

    Attributes:
        runs: The runs, in the order they were given.
        pairs: For every run but the first, its paired differences from the first, by the run's
            folder; runs without a play in common with the first are left out.
    """

    runs: tuple[Run, ...]
    pairs: "Mapping[str, RunComparison]"

    def to_frame(self) -> "pd.DataFrame":
        """Success by run (rows) and panel (columns).

        Raises:
            UserError: pandas is not installed.
        """
        frame = self.long_frame()
        frame["panel"] = frame["task"] + "/" + frame["panel"]
        table = frame.pivot(index="run", columns="panel", values="success")
        return table.reindex([str(run.path) for run in self.runs])

    def long_frame(self) -> "pd.DataFrame":
        """One row for every run and panel, with all metrics and intervals.

        Raises:
            UserError: pandas is not installed.
        """
        return _frame(_table(self.runs).facts())


def evaluate(
    model: PathLike | None = None,
    tasks: str | Sequence[str] | None = None,
    *,
    out: PathLike | None = None,
    limit: int | None = None,
    **options: Any,
) -> Run:
    """Evaluate a model, as `arlarena-bench eval` does; repeating the call plays what is missing.

    Args:
        model: Name of an init, a folder, a hub id, or with `endpoint` the name of a served model.
        tasks: Tasks or panels (`sokoban`, `sokoban/two_boxes`), or `all`; None for an init's own
            task, or all tasks for other models.
        out: The run's folder; None for a name under `runs/`.
        limit: Play only the first `limit` episodes of every panel.
        options: Any other option of `arlarena-bench eval` by its name with underscores:
            `max_tokens=4096`, `endpoint="http://localhost:8000"`,
            `chat_template_kwargs={"enable_thinking": False}`. A list repeats an option.

    Returns:
        The run.

    Raises:
        UserError: An argument is invalid, or the evaluation is not possible.
        benchmark.engines.core.base.EngineDown: The engine failed; the call can be repeated.
    """
    named = [tasks] if isinstance(tasks, str) else list(tasks or ())
    given = {"model": model, "task": named, "out": out, "limit": limit, **options}
    words = ["eval", *_words(given)]
    from benchmark.cli.commands.eval import check_words
    from benchmark.cli.main import parse, prepare

    arguments = parse(words)
    prepare(arguments)
    check_words(arguments)
    from benchmark.cli.commands.eval_run import play
    from benchmark.cli.output import write_outputs

    folder, _ = play(arguments, ("arlarena-bench", *words))
    write_outputs(folder, env_processes=arguments.env_processes)
    return read_run(folder)


def read_run(path: PathLike) -> Run:
    """Read a run folder.

    Raises:
        UserError: It is not a run folder, or one of its records is invalid.
    """
    from benchmark.evaluation.run_folder import read_run
    from benchmark.evaluation.summarize import summarize
    from benchmark.evaluation.summary import named

    manifest, records = read_run(Path(path))
    summary = named(summarize(manifest, records), manifest)
    return Run(Path(path), manifest, tuple(records), summary)


def compare(*runs: Run | PathLike) -> Comparison:
    """Compare two or more runs.

    Args:
        runs: Runs or their folders; differences are measured from the first.

    Raises:
        UserError: There are fewer than two, or two played a panel under different protocols.
    """
    from benchmark.evaluation.compare import compare

    read = tuple(run if isinstance(run, Run) else read_run(run) for run in runs)
    if len(read) < 2:
        raise UserError("compare needs two runs at least")
    _table(read)
    first, *others = read
    keys = {record.key for record in first.records}
    pairs = {
        str(other.path): compare((first.manifest, first.records), (other.manifest, other.records))
        for other in others
        if not keys.isdisjoint(record.key for record in other.records)
    }
    return Comparison(read, pairs)


def _table(runs: Sequence[Run]) -> Any:
    from benchmark.evaluation.run_table import RunTable

    return RunTable.of([(str(run.path), run.manifest, run.records) for run in runs])


def _words(options: Mapping[str, Any]) -> list[str]:
    """Convert options to the words of a command line."""
    import json

    words: list[str] = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        for each in value if isinstance(value, list | tuple) else [value]:
            if each is True:
                words.append(option)
            elif isinstance(each, Mapping):
                words += [option, json.dumps(each)]
            elif each is not None and each is not False:
                words += [option, str(each)]
    return words


def _episode(record: "EpisodeRecord") -> dict[str, Any]:
    fields = record.model_dump(exclude={"turns", "sequence", "schema_version"})
    turns = record.turns
    counted = [turn.response_tokens for turn in turns if turn.response_tokens is not None]
    return {
        **fields,
        "return": record.episode_return,
        "format_ok": sum(turn.format_ok for turn in turns),
        "action_ok": sum(turn.action_ok for turn in turns),
        "truncated": sum(turn.finish_reason == "length" for turn in turns),
        "response_tokens": sum(counted) if len(counted) == len(turns) else None,
    }


def _turn(turn: "TurnRecord") -> dict[str, Any]:
    return turn.model_dump()


def _frame(rows: Sequence[Mapping[str, Any]]) -> "pd.DataFrame":
    try:
        import pandas as pd
    except ImportError:
        from benchmark.versions import install_text

        raise UserError(
            f"tables need pandas: pip install pandas, or {install_text('leaderboard')}"
        ) from None
    return pd.DataFrame(list(rows))
