"""The tiny study's results folder: logs, a table, curves, and a page that says what came out.

All of it is made from the runs' logs alone: the same logs give the same files.
"""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmark.files import write_atomically
from benchmark.training_curves import curves_of, plotted
from benchmark.training_plot import figure_bytes
from scripts.study_numbers import SETTINGS, Result, Study, Trial, load_study
from scripts.study_text import page
from tasks.errors import UserError

PLOTS = (
    "validation/success",
    "rollout/success",
    "rollout/format_ok",
    "policy/entropy",
    "policy/grad_norm",
    "kl_old/clipped_mean",
    "kl_init/clipped_mean",
    "ratio/max",
)

Cell = str | float | None


def write_results(
    recipes: Sequence[str], seeds: Sequence[int], runs_folder: Path, results_folder: Path
) -> None:
    """Write what there is of a study; runs that are missing are named on the page.

    Writes `README.md`, `table.csv`, one `curves-SETTING.svg` and a folder of logs for each setting.
    Logs and curves of an earlier study that this one does not have are removed.

    Args:
        recipes: Names, distinct.
        seeds: Distinct.
        runs_folder: Where `study.py` made the runs.
        results_folder: Where to write; made if it is not there.

    Raises:
        UserError: A log is not valid or not of this study, or a file cannot be written.
    """
    study = load_study(recipes, seeds, runs_folder)
    try:
        results_folder.mkdir(parents=True, exist_ok=True)
        for setting in SETTINGS:
            _write_logs(study.begun(setting), results_folder / setting)
            _write_curves(study.finished(setting), results_folder / f"curves-{setting}.svg")
        write_atomically(results_folder / "table.csv", _table(study).encode())
        write_atomically(results_folder / "README.md", page(study).encode())
    except OSError as error:
        raise UserError(f"{results_folder} cannot be written: {error.strerror or error}") from error


def log_name(result: Result) -> str:
    """The name of a run's log in its setting's folder."""
    return f"{result.run.recipe}-s{result.run.seed}.jsonl"


def _write_logs(results: Sequence[Result], folder: Path) -> None:
    """Copy the logs as they are, without a last line that has no end."""
    folder.mkdir(exist_ok=True)
    names = {log_name(result) for result in results}
    for old in folder.glob("*-s*.jsonl"):
        if old.name not in names:
            old.unlink()
    for result in results:
        content = result.log.path.read_bytes()
        write_atomically(folder / log_name(result), content[: content.rindex(b"\n") + 1])


def _write_curves(results: Sequence[Result], path: Path) -> None:
    if not results:
        path.unlink(missing_ok=True)
        return
    logs = [result.log for result in results]
    write_atomically(path, figure_bytes(curves_of(logs), plotted(PLOTS, logs)))


_COLUMNS: dict[str, Callable[[Result], Cell]] = {
    "setting": lambda r: r.run.setting,
    "recipe": lambda r: r.run.recipe,
    "seed": lambda r: r.run.seed,
    "learning_rate": lambda r: r.learning_rate,
    "updates": lambda r: r.updates,
    "finished": lambda r: "yes" if r.finished else "no",
    "success_init": lambda r: r.init.value,
    "success_last": lambda r: r.final.value,
    "success_last_low": lambda r: r.final.low,
    "success_last_high": lambda r: r.final.high,
    "gain": lambda r: r.gain.value,
    "gain_low": lambda r: r.gain.low,
    "gain_high": lambda r: r.gain.high,
    "success_lowest": lambda r: r.lowest,
    "collapse_update": lambda r: r.collapse,
    "below_half_update": lambda r: r.below_half,
    "kl_old_highest": lambda r: r.highest_of("kl_old/clipped_mean"),
    "kl_init_last": lambda r: r.last_of("kl_init/clipped_mean"),
    "ratio_highest": lambda r: r.highest_of("ratio/max"),
    "grad_norm_highest": lambda r: r.highest_of("policy/grad_norm_max"),
    "format_ok_lowest": lambda r: r.lowest_of("rollout/format_ok"),
    "minutes": lambda r: r.minutes,
    "tuning_success": lambda r: None,
}


def _table(study: Study) -> str:
    """One row for every run that has begun, those that tuned the learning rates included."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for setting in SETTINGS:
        for result in study.begun(setting):
            writer.writerow([_cell(column(result)) for column in _COLUMNS.values()])
    for recipe in study.recipes:
        for trial in study.trials[recipe]:
            if trial.updates:
                known = dict(_of_trial(trial))
                writer.writerow([_cell(known.get(name)) for name in _COLUMNS])
    return file.getvalue()


def _of_trial(trial: Trial) -> Iterator[tuple[str, Cell]]:
    yield "setting", "tuning"
    yield "recipe", trial.recipe
    yield "seed", trial.seed
    yield "learning_rate", trial.rate
    yield "updates", trial.updates
    yield "finished", "yes" if trial.finished else "no"
    yield "minutes", trial.minutes
    yield "tuning_success", trial.success


def _cell(value: Cell) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:.6g}"
