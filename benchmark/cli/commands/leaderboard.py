"""`arlarena-bench leaderboard`: check all submissions, write the board's files, serve the page."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from statistics import fmean
from typing import TYPE_CHECKING

from benchmark.cli.from_baselines import (
    method_fault,
    pinned_hashes,
    registered_inits,
    registered_tracks,
    shipped_weights,
    train_command,
)
from benchmark.cli.say import say
from benchmark.submissions.format.texts import check_link
from benchmark.track_schema import Track
from benchmark.versions import install_text
from tasks.errors import UserError, os_error_as
from tasks.registry import load_task
from tasks.texts import counted, on_one_line

if TYPE_CHECKING:
    from benchmark.submissions.check import CheckResult
    from leaderboard.board.build import Built
    from leaderboard.board.eval_results import Source
    from leaderboard.board.protocols import Grid, StudyVerdict


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return _serve(arguments) if arguments.action == "serve" else _build(arguments)


def _serve(arguments: argparse.Namespace) -> int:
    from leaderboard.board.board import load

    def ready(address: str) -> None:
        say(f"the leaderboard is at {address} (press Ctrl-C to stop)", flush=True)

    # Before Gradio is imported, which takes seconds, so that a wrong file fails immediately.
    board = load(Path(arguments.board))
    try:
        from leaderboard.serve.server import start
    except ModuleNotFoundError as error:
        raise UserError(
            f"the page needs the package {error.name}: make leaderboard, or "
            f"{install_text('leaderboard')}"
        ) from error
    start(board, Path(arguments.submissions), arguments.host, arguments.port, ready)
    return 0


def _build(arguments: argparse.Namespace) -> int:
    from benchmark.submissions.reading.replays import Replays
    from leaderboard.board.build import Origin, build, write
    from leaderboard.board.queue import read_queue

    # Check for missing values before an hour of replays, not after it.
    source = _source(arguments)
    for option in ("source", "repository"):
        _check_address(option, getattr(arguments, option))
    for folder in filter(None, (arguments.out, arguments.eval_results)):
        _try(Path(folder))
    queue = read_queue(Path(arguments.queue)) if arguments.queue else None
    origin = Origin(arguments.repository, arguments.commit, arguments.date, _grid(), queue)
    built = build(
        Path(arguments.submissions),
        pinned_hashes(),
        arguments.env_processes,
        replays=Replays(Path(arguments.replays)) if arguments.replays else None,
        replay_s=60 * arguments.replay_minutes,
        shipped=shipped_weights(),
        tracks=registered_tracks(),
        method_fault=method_fault,
        checked=_tell,
        train_command=train_command,
        origin=origin,
    )
    parquet, json = write(built, Path(arguments.out))
    for name in built.archived:
        say(f"{name}: older protocol, shown from the archive")
    for name in built.dropped:
        say(f"{name}: archived but not shown, because its folder is missing or has changed")
    for refused in built.refused:
        more = f" (and {len(refused.reasons) - 1} more)" if len(refused.reasons) > 1 else ""
        say(f"{refused.id}: rejected: {refused.reasons[0]}{more}", file=sys.stderr)
    odd = _write_results(built, source, Path(arguments.eval_results)) if source else 0
    say(f"{len(built.accepted)} entries: {parquet} and {json}")
    folders = f"--submissions {quote(arguments.submissions)} --board {quote(str(parquet))}"
    say(f"show them: arlarena-bench leaderboard serve {folders}")
    return 1 if built.refused or odd else 0


def _try(folder: Path) -> None:
    """Check that a folder is writable; create it if it does not exist.

    Raises:
        UserError: It is not.
    """
    with os_error_as(f"{folder} cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


def _grid() -> "Grid":
    """All recipes and tracks, and the finished runs of the study."""
    from baselines.config.layers import RECIPES, names
    from baselines.study.cells import cells_there, read_cell, read_plays
    from baselines.study.methods import collapse_of, halved_of
    from baselines.tracks.registry import RESULTS
    from leaderboard.board.protocols import COMPARISONS, Grid, StudyRun

    # The paper's tracks need machines with GPUs.
    registered = registered_tracks()
    tracks = [
        name
        for name in sorted(registered)
        if not name.startswith("paper-") and not COMPARISONS.fullmatch(name)
    ]
    runs = []
    for cell in (cell for track in tracks for cell in cells_there(RESULTS, track)):
        try:
            found = read_cell(RESULTS, cell)
            plays = read_plays(found) if found else {}
        except UserError as error:
            # A damaged file of the study must not remove entries from the board.
            say(f"{cell.track}/{cell.stem}: left out: {error}", file=sys.stderr)
            continue
        if found is None or found.log is None:
            continue
        success = fmean(fmean(panel.values()) for panel in plays.values())
        minutes = found.facts.own_seconds / 60
        collapse, late = collapse_of(found.log), bool(halved_of(found.log))
        runs.append(StudyRun(cell.track, cell.recipe, cell.seed, success, collapse, minutes, late))
    panels = tuple(
        tuple((task, track.settings["validation"]["panel"]) for task in track.tasks)
        for track in map(registered.__getitem__, tracks)
    )
    recipes = names(RECIPES)
    impossible = _impossible(recipes, [registered[name] for name in tracks])
    return Grid(tuple(tracks), recipes, tuple(runs), _verdicts(), panels, impossible)


def _impossible(recipes: Sequence[str], tracks: Sequence[Track]) -> tuple[tuple[str, str], ...]:
    """Recipes that compare turns, with tracks where an episode is one sequence."""
    from baselines.config.run import without_turns
    from baselines.tracks.registry import resolve_on_track

    found = []
    for recipe in recipes:
        for track in tracks:
            config = resolve_on_track(track, recipe, track.learning_rate.rates[0])
            if not config.advantage.needs_turns:
                break
            if without_turns(config, [load_task(task) for task in track.tasks]):
                found.append((recipe, track.name))
    return tuple(found)


def _verdicts() -> "tuple[StudyVerdict, ...]":
    """Verdicts on the papers' claims from the finished runs of the study."""
    from baselines.study.claims import read_claims
    from baselines.study.current_tracks import current_tracks_of
    from baselines.study.pages.track_pages import results_by_track
    from baselines.study.schema import cells_of, read_study
    from baselines.study.verdicts import verdicts
    from baselines.study.workspace import survey, with_inits
    from baselines.tracks.registry import RESULTS
    from leaderboard.board.protocols import StudyVerdict

    studies = RESULTS.parent / "studies"
    claims = studies / "claims.yaml"
    files = sorted(path for path in studies.glob("*.yaml") if path != claims)
    wanted = tuple(dict.fromkeys(cell for path in files for cell in cells_of(read_study(path))))
    cells, current_tracks = with_inits(wanted), current_tracks_of(wanted, str(studies))
    try:
        finished = survey(cells, current_tracks, RESULTS).finished
        results = results_by_track(cells, finished, current_tracks)
        listed = read_claims(claims)
        judged = verdicts(listed.claims, results, listed.pilots)
    except UserError as error:
        # A damaged file of the study must not remove entries from the board.
        say(f"verdicts of the study: left out: {error}", file=sys.stderr)
        return ()
    return tuple(
        StudyVerdict(
            each.claim.title,
            ", ".join(each.claim.tracks),
            each.outcome,
            each.numbers,
            each.claim.post_hoc,
        )
        for each in judged
    )


def _check_address(option: str, address: str | None) -> None:
    if not address:
        return
    try:
        check_link(address)
    except ValueError as error:
        raise UserError(f"--{option} {address}: {error}") from error


def _tell(verdict: "CheckResult", number: int, count: int) -> None:
    """Print progress, because replays take a while."""
    said = "accepted" if verdict.accepted else "not accepted"
    name = on_one_line(verdict.folder.name)
    say(f"{number} of {count}: {name} {said}", file=sys.stderr, flush=True)


def _source(arguments: argparse.Namespace) -> "Source | None":
    """The source that the results link to; None if no files for the hub are requested.

    Raises:
        UserError: An option is missing, has no effect, or is not a valid address.
    """
    from leaderboard.board.eval_results import Source

    if arguments.eval_results is None:
        if arguments.dataset or arguments.source:
            raise UserError("--dataset and --source need --eval-results")
        return None
    if arguments.dataset is None:
        raise UserError(
            "--eval-results needs --dataset OWNER/NAME: the hub shows results on the "
            "page of a dataset registered as a benchmark"
        )
    hubs = {name: init.hub for name, init in registered_inits().items() if init.hub is not None}
    return Source(arguments.dataset, arguments.source, hubs)


def _write_results(built: "Built", source: "Source", out: Path) -> int:
    """Write the files for the hub; return the number of models that cannot have one."""
    from leaderboard.board.eval_results import result_files, write_files

    files, odd = result_files(built.content, source)
    write_files(files, out)
    for text in odd:
        say(on_one_line(text), file=sys.stderr)
    say(f"{counted(len(files), 'file')} for models on the hub: {out}")
    return len(odd)
