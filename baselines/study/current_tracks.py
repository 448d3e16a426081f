"""The base of a study's cells: the current tracks, checked before anything runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from baselines.config.run import TrainingRun
from baselines.study.custom import SHIPPED_ONLY, CustomMethods
from baselines.study.schema import Cell
from baselines.tracks.registry import load_track, resolve_on_track
from baselines.tracks.sweeps import points_of_sweeps
from baselines.training.validation import chosen_settings, validation_options, validation_plan
from benchmark.evaluation.evaluate import Plan
from benchmark.models import ModelIdentity, ModelSource
from benchmark.track_schema import Track
from tasks.errors import UserError

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CurrentTrack:
    """A track in its current version.

    Attributes:
        track: The track.
        validation: The plan of its validations.
    """

    track: Track
    validation: Plan

    @property
    def updates(self) -> int:
        """Number of updates in a run."""
        return int(self.track.settings["optimization"]["updates"])

    @property
    def episodes_per_update(self) -> int:
        """Episodes per update without dynamic sampling."""
        rollout = self.track.settings["rollout"]
        return int(rollout["groups"]) * int(rollout["group_size"])

    def evaluation_options(self) -> list[str]:
        """Options of `eval` that reproduce a validation."""
        panels: list[str] = []
        for planned in self.validation.panels:
            panels += ["--task", f"{planned.protocol.task}/{planned.protocol.panel}"]
        chosen = [part for each in chosen_settings(self.validation) for part in ("--set", each)]
        return [
            *panels,
            *chosen,
            *validation_options(self.validation, self.track.settings["validation"]),
        ]


def current_tracks_of(
    cells: Iterable[Cell],
    where: str,
    custom: CustomMethods = SHIPPED_ONLY,
    unread: dict[str, str] | None = None,
) -> Mapping[str, CurrentTrack]:
    """The tracks of a study's cells, by name, in order.

    Args:
        cells: The cells.
        where: Name of the study file, for messages.
        custom: Methods that are not shipped.
        unread: Gets the tracks whose panels cannot be read here, with the reason; the others are
            returned. None to refuse them.

    Raises:
        UserError: A track is unknown or was changed, its panels cannot be read, or a recipe cannot
            be used on it.
    """
    current_tracks: dict[str, CurrentTrack] = {}
    for track_name, recipe in dict.fromkeys((cell.track, cell.recipe) for cell in cells):
        try:
            track = (
                current_tracks[track_name].track
                if track_name in current_tracks
                else load_track(track_name)
            )
            tasks = track.load_tasks()
            config = resolve_on_track(track, custom.recipe(recipe), track.learning_rate.rates[0])
            # This refuses configurations that cannot be trained, for which the init is irrelevant.
            nowhere = ModelSource(ModelIdentity(name=track.init.name, kind="init"), None)
            TrainingRun(recipe, config, tasks, nowhere, seed=0, folder=Path())
            if track_name in current_tracks or (unread and track_name in unread):
                continue
            try:
                current_tracks[track_name] = CurrentTrack(track, validation_plan(config, tasks))
            except UserError as error:
                if unread is None:
                    raise
                unread[track_name] = str(error)
        except UserError as error:
            raise UserError(f"{where}: {track_name} {recipe}: {error}") from error
    return current_tracks


def without_sweeps(
    found: Mapping[str, _T], current_tracks: Mapping[str, CurrentTrack]
) -> dict[str, _T]:
    """Values by track, without tracks that are points of sweeps.

    Those repeat their base's runs with one changed setting, and so would count twice.

    Args:
        found: Values by track.
        current_tracks: The tracks.
    """
    points = points_of_sweeps(each.track for each in current_tracks.values())
    return {name: each for name, each in found.items() if name not in points}
