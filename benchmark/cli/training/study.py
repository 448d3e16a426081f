"""`arlarena-bench study`: make the runs of a study file, show their state, write their pages."""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.cli.output import table_console
from benchmark.cli.say import say
from benchmark.cli.tables import PlainTable
from benchmark.stats.formatting import points_digits
from tasks.errors import UserError
from tasks.texts import counted

if TYPE_CHECKING:
    from baselines.launch.slots import GpuSlots
    from baselines.study.cells import Finished
    from baselines.study.schema import Cell
    from baselines.study.workspace import StudySetting, Survey

CLAIMS = "claims.yaml"
"""File of claims to judge, next to the study file."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from baselines.launch.slots import NO_GPUS
    from baselines.study.current_tracks import current_tracks_of
    from baselines.study.custom import custom_methods
    from baselines.study.schema import TABLE, cells_of, read_study
    from baselines.study.workspace import COMMAND, StudySetting, with_inits
    from baselines.tracks.registry import RESULTS

    file = Path(arguments.study)
    study = read_study(file)
    cells, custom = cells_of(study), custom_methods(study, file)
    results = Path(arguments.results or RESULTS)
    if not results.is_dir() and (results.exists() or arguments.action == "page"):
        raise UserError(f"--results {results} is not a folder")
    if arguments.action == "page" and _are_shipped(results):
        # Pages of the shipped results include the shipped study, whatever is added to it.
        cells = tuple(dict.fromkeys((*cells, *cells_of(read_study(TABLE)))))
    gpus = _gpus(arguments) if arguments.action == "run" else NO_GPUS
    unread: dict[str, str] = {}
    lenient = unread if arguments.action == "status" else None
    setting = StudySetting(
        current_tracks=current_tracks_of(cells, str(file), custom, lenient),
        out=Path(arguments.out or Path("runs") / f"study-{study.name}"),
        results=results,
        jobs=len(gpus.gpus) or getattr(arguments, "jobs", None) or 1,
        command=COMMAND,
        custom=custom,
        gpus=gpus,
        unread=unread,
    )
    actions = {"run": _run, "status": _status, "page": _page}
    return actions[arguments.action](arguments, with_inits(cells), setting)


def _gpus(arguments: argparse.Namespace) -> "GpuSlots":
    """Assign GPUs to the runs.

    Raises:
        UserError: There are too few GPUs, options conflict, or vLLM is missing.
    """
    from baselines.launch.plan import visible_gpus
    from baselines.launch.slots import deal_gpus
    from benchmark.engines.vllm.build import check_installed

    share = arguments.gpu_memory_utilization
    options = ["--sleep"] if arguments.sleep else []
    options += [] if share is None else ["--gpu-memory-utilization", str(share)]
    if arguments.gpus is not None:
        check_installed()
    elif arguments.serve_gpus is not None or options:
        name = "--serve-gpus" if arguments.serve_gpus is not None else options[0]
        raise UserError(f"{name} has no effect without --gpus")
    return deal_gpus(arguments.jobs, arguments.gpus, arguments.serve_gpus, visible_gpus(), options)


def _check_on_gpus(cells: "tuple[Cell, ...]", setting: "StudySetting") -> None:
    """Refuse runs that `train` would refuse on these GPUs, before any has started.

    Raises:
        UserError: `train` would refuse some; each has been printed with its reason.
    """
    from baselines.study.schema import INIT
    from benchmark.cli.main import parse
    from benchmark.cli.training.early_checks import check_run
    from benchmark.cli.training.engines import check_engine
    from benchmark.cli.training.gpus import fit
    from benchmark.cli.training.train import plan_run

    refused = 0
    methods = dict.fromkeys((cell.track, cell.recipe) for cell in cells if cell.recipe != INIT)
    for track, recipe in methods:
        words = ["train", "--track", track, *setting.custom.options(recipe)]
        try:
            asked = parse([*words, *setting.gpus.train_options])
            planned = plan_run(asked)
            check_engine(planned.training, planned.arguments, planned.processes)
            check_run(planned.training, planned.processes)
            fit(planned.training, asked, planned.plan)
        except UserError as error:
            refused += 1
            say(f"{track} {recipe}: {error}", file=sys.stderr)
    if refused:
        raise UserError(
            f"{counted(refused, 'method')} cannot run this way (see above); nothing was started"
        )


def _warn_of_methods(cells: Sequence["Cell"], setting: "StudySetting") -> None:
    """Name methods of the study's own whose entries would be refused, before hours of training."""
    from baselines.tracks.registry import resolve_on_track
    from benchmark.cli.training.early_checks import taken_text

    for name, recipe in dict.fromkeys((cell.track, cell.recipe) for cell in cells):
        if recipe not in setting.custom.methods:
            continue
        track = setting.current_tracks[name].track
        config = resolve_on_track(
            track, setting.custom.recipe(recipe), track.learning_rate.rates[0]
        )
        if (said := taken_text(recipe, config, track)) is not None:
            say(f"{name}: {said}", file=sys.stderr)


def _are_shipped(results: Path) -> bool:
    """Whether these are the results shipped with this repository."""
    from baselines.tracks.registry import RESULTS

    return results.resolve() == RESULTS.resolve()


def _run(_arguments: argparse.Namespace, cells: "tuple[Cell, ...]", setting: "StudySetting") -> int:
    from baselines.study.estimate import duration
    from baselines.study.running import run_cells
    from baselines.study.workspace import survey

    found = survey(cells, setting.current_tracks, setting.results, setting.custom)
    done = list(found.finished)
    failures = 0
    _say_outdated(found.outdated, setting)
    say(f"{len(done)} of {len(cells)} runs are finished; {_left(found.missing, done, setting)}")
    if found.missing:
        say(_where(setting.out))
    sys.stdout.flush()
    _warn_of_methods(found.missing, setting)
    if setting.gpus.train_options:
        _check_on_gpus(found.missing, setting)
    left = list(found.missing)

    def begun(cell: "Cell", output: Path) -> None:
        say(f"{cell.text} begins; its output: {output}", flush=True)

    def finished(cell: "Cell", result: "Finished") -> None:
        left.remove(cell)
        done.append(result)
        took = duration(sum(result.facts.cpu_seconds.values()))
        head = f"{len(done)} of {len(cells)}: {cell.text}, {took} of CPU time"
        say(f"{head}; {_left(left, done, setting)}" if left else head, flush=True)

    def failed(cell: "Cell", reason: str) -> None:
        nonlocal failures
        failures += 1
        left.remove(cell)
        say(f"{cell.text} failed: {reason}", file=sys.stderr, flush=True)

    try:
        run_cells(found.missing, setting, begun, finished, failed)
    except KeyboardInterrupt:
        say("stopped; run the same command to resume from the last checkpoints", file=sys.stderr)
        raise
    if failures:
        say(f"{failures} of {len(cells)} runs failed; run the same command to retry them")
    return 1 if failures or found.outdated else 0


def _say_outdated(outdated: "Mapping[Cell, str]", setting: "StudySetting") -> None:
    from baselines.study.cells import CellFiles

    for cell, reason in outdated.items():
        path = CellFiles(setting.results, cell).facts
        say(f"{cell.text} is outdated: {reason}; remove {path} to run it again", file=sys.stderr)


def _left(
    missing: "list[Cell] | tuple[Cell, ...]", done: "list[Finished]", at: "StudySetting"
) -> str:
    from baselines.study.estimate import estimate
    from baselines.tracks.registry import read_index

    if not missing:
        return "nothing left to do"
    if at.gpus.gpus:
        # CPU time is what was measured, mostly for runs without a GPU.
        return f"{len(missing)} left"
    minutes = {name: pin.cpu_minutes for name, pin in read_index().items()}
    return estimate(missing, done, at.current_tracks, minutes, at.custom).text(at.jobs)


def _status(
    arguments: argparse.Namespace, cells: "tuple[Cell, ...]", setting: "StudySetting"
) -> int:
    from baselines.study.estimate import duration, spent
    from baselines.study.status import rows_of
    from baselines.study.workspace import survey

    known = [cell for cell in cells if cell.track not in setting.unread]
    found = survey(known, setting.current_tracks, setting.results, setting.custom)
    rows = rows_of(cells, found, setting)
    left = _left(found.missing, list(found.finished), setting)
    by_task = spent(found.finished, setting.current_tracks)
    unread = dict(setting.unread)
    if unread:
        count = len(cells) - len(known)
        left += f", and {counted(count, 'run')} on tracks whose panels cannot be read here"
    if arguments.json:
        content = {
            "out": str(setting.out.absolute()),
            "left": left,
            "spent_cpu_seconds": by_task,
            "unread": unread,
            "rows": rows,
        }
        say(json.dumps(content, indent=1))
        return 0
    table = PlainTable(box=None, pad_edge=False)
    seeds = ("finished seeds", "running", "missing seeds")
    for column in ("track", "recipe", *seeds, "collapsed", "gain"):
        table.add_column(column)
    for row in rows:
        gain = row["gain"]
        table.add_row(
            row["track"],
            row["recipe"],
            _seeds(row["finished"]),
            ", ".join(f"{seed} ({where})" for seed, where in row["running"].items()) or "-",
            _seeds([*row["missing"], *row["failed"], *row["outdated"]]),
            _collapsed(row),
            "-" if gain is None else points_digits(gain),
        )
    table_console().print(table)
    for row in rows:
        for kind in ("failed", "outdated"):
            for seed, reason in row[kind].items():
                say(f"{row['track']} {row['recipe']} seed {seed} {kind}: {reason}")
        if row["unchecked"]:
            there = _seeds(row["unchecked"])
            say(f"{row['track']} {row['recipe']} has files that were not checked: seeds {there}")
    for track, reason in unread.items():
        say(f"{track} cannot be read here: {reason}")
    if by_task:
        texts = (f"{duration(seconds)} on {tasks}" for tasks, seconds in by_task.items())
        say(f"CPU time of finished runs: {', '.join(texts)}")
    if found.missing or unread:
        say(_where(setting.out))
    say(f"{len(found.finished)} of {len(cells)} runs are finished; {left}")
    return 0


def _where(out: Path) -> str:
    """Name the folder of runs in progress: by default, it depends on the working directory."""
    if out.is_dir():
        return f"runs in progress are in {out.absolute()}"
    return (
        f"no run was started in {out.absolute()} yet; if some were started elsewhere, name their "
        "folder with --out"
    )


def _collapsed(row: Mapping[str, Any]) -> str:
    return "-" if row["collapsed"] is None else f"{row['collapsed']} of {len(row['finished'])}"


def _seeds(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, seeds)) or "-"


def _page(arguments: argparse.Namespace, cells: "tuple[Cell, ...]", setting: "StudySetting") -> int:
    from baselines.study.cells import cells_there
    from baselines.study.claims import Claims, read_claims
    from baselines.study.current_tracks import without_sweeps
    from baselines.study.pages.claims_page import write_claims
    from baselines.study.pages.early_warning import write_early_warning
    from baselines.study.pages.overview import write_overview
    from baselines.study.pages.robustness import measured_sweeps, write_robustness
    from baselines.study.pages.track_pages import results_by_track, write_pages
    from baselines.study.schema import TABLE
    from baselines.study.verdicts import verdicts, verdicts_with_noise_once
    from baselines.study.workspace import survey

    claims = Path(arguments.claims or Path(arguments.study).with_name(CLAIMS))
    if not arguments.claims and not claims.exists() and _are_shipped(setting.results):
        claims = TABLE.with_name(CLAIMS)
    if arguments.claims and not claims.exists():
        raise UserError(f"--claims {claims} does not exist")
    # A track has only one page, which includes results of other studies.
    others = (
        cell for track in setting.current_tracks for cell in cells_there(setting.results, track)
    )
    cells = tuple(dict.fromkeys((*cells, *others)))
    found: Survey = survey(cells, setting.current_tracks, setting.results, setting.custom)
    _say_outdated(found.outdated, setting)
    listed = read_claims(claims) if claims.exists() else Claims()
    results = results_by_track(cells, found.finished, setting.current_tracks)
    if not found.finished:
        raise UserError(f"no finished run of this study is in {setting.results}")
    judged = verdicts(listed.claims, results, listed.pilots)
    if arguments.readme:  # first, because it can be refused
        readme = Path(arguments.readme)
        withdrawn = len(listed.withdrawn)
        say(
            write_overview(
                results, setting.current_tracks, judged, withdrawn, setting.results, readme
            )
        )
    for path in write_pages(results, setting, judged):
        say(path)
    if arguments.readme:
        if judged:
            once = verdicts_with_noise_once(listed.claims, results, listed.pilots)
            say(write_claims(judged, once, listed, claims, setting.results))
        apart = without_sweeps(results, setting.current_tracks)
        say(write_early_warning(apart, setting.results))
        if sweeps := measured_sweeps(results, setting.current_tracks):
            say(write_robustness(sweeps, setting.results))
        say(arguments.readme)
    return 0
