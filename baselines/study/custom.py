"""The methods that a study brings itself: recipe files and plug-ins beside the study file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from baselines.algorithms.plugins import Plugin, load_plugins
from baselines.config.layers import read_recipe
from baselines.study.cells import Finished
from baselines.study.schema import Study, custom_names
from baselines.tracks.registry import resolve_on_track
from benchmark.track_schema import METHOD, Track
from tasks.texts import digest_text


@dataclass(frozen=True, slots=True)
class CustomMethods:
    """Recipes that are not shipped, and their code.

    Attributes:
        recipes: Files of the recipes, by name.
        plugins: Loaded, by their names in a log.
    """

    recipes: Mapping[str, Path] = field(default_factory=dict)
    plugins: Mapping[str, Plugin] = field(default_factory=dict)

    def recipe(self, name: str) -> str:
        """What `--recipe` names: a recipe's file, or its name if it is shipped."""
        return str(self.recipes.get(name, name))

    def code(self, name: str) -> Mapping[str, str]:
        """SHA-256 of the plug-ins of a recipe's runs, by their names in a log."""
        if name not in self.recipes:
            return {}
        return {called: plugin.sha256 for called, plugin in self.plugins.items()}

    def options(self, name: str) -> list[str]:
        """Options of `train` for a recipe."""
        given = [plugin.given for plugin in self.plugins.values() if name in self.recipes]
        return ["--recipe", self.recipe(name), *(w for each in given for w in ("--plugin", each))]

    def changed(self, finished: Finished, track: Track) -> str | None:
        """Why a finished run is not one of the method as it is now; None if it is.

        Args:
            finished: The run.
            track: Its track.

        Raises:
            UserError: The recipe cannot be used.
        """
        name, log = finished.cell.recipe, finished.log
        if name not in self.recipes or log is None or finished.facts.learning_rate is None:
            return None
        was, now = log.start.plugins, self.code(name)
        for called in sorted({*was, *now}):
            if was.get(called) != now.get(called):
                then, today = (
                    digest_text(each[called]) if called in each else "not used"
                    for each in (was, now)
                )
                return f"plug-in {called} was {then} and is {today}"
        config = resolve_on_track(track, self.recipe(name), finished.facts.learning_rate)
        method = config.model_dump(mode="json", include=set(METHOD))
        differing = [each for each in METHOD if log.start.configuration.get(each) != method[each]]
        if differing:
            return f"{self.recipes[name]} has another {' and another '.join(differing)} now"
        return None


SHIPPED_ONLY: Final = CustomMethods()


def custom_methods(study: Study, file: Path) -> CustomMethods:
    """Load the methods that a study file brings; its plug-ins are run.

    Args:
        study: Its content.
        file: The study file; relative paths begin in its folder.

    Raises:
        UserError: A recipe or a plug-in cannot be used.
    """
    places = (file.parent / each for each in study.recipes)
    recipes = dict(zip(custom_names(study), places, strict=True))
    for place in recipes.values():
        read_recipe(str(place))
    given = (str(file.parent / each) if each.endswith(".py") else each for each in study.plugins)
    return CustomMethods(recipes, load_plugins(tuple(given)))
