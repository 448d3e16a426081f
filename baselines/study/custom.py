"""A study's own methods: recipe files with their plug-ins."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from baselines.algorithms.plugins import Plugin, load_plugins
from baselines.config.layers import RECIPES, names, read_recipe
from baselines.study.cells import Finished
from baselines.study.schema import Study
from baselines.tracks.registry import resolve_on_track
from benchmark.track_schema import METHOD, Track
from tasks.errors import UserError
from tasks.seeding import canonical_json, sha256_text
from tasks.strict import YAML
from tasks.texts import digest_text

_VERSION: Final = 8
"""Number of hash digits that identify a version of a method."""


@dataclass(frozen=True, slots=True)
class CustomMethod:
    """A recipe that is not shipped, and its code.

    Attributes:
        file: The recipe's file.
        plugins: Loaded plug-ins, by their names in a log.
        version: Digits that another content of these files does not have.
    """

    file: Path
    plugins: Mapping[str, Plugin]
    version: str

    @property
    def code(self) -> Mapping[str, str]:
        """SHA-256 of the plug-ins, by their names in a log."""
        return {name: plugin.sha256 for name, plugin in self.plugins.items()}


@dataclass(frozen=True, slots=True)
class CustomMethods:
    """The recipes of a study that are not shipped.

    Attributes:
        methods: By the recipe's name.
    """

    methods: Mapping[str, CustomMethod] = field(default_factory=dict)

    def recipe(self, name: str) -> str:
        """What `--recipe` names: a recipe's file, or its name if it is shipped."""
        return str(self.methods[name].file) if name in self.methods else name

    def code(self, name: str) -> Mapping[str, str]:
        """SHA-256 of the plug-ins of a recipe's runs, by their names in a log."""
        return self.methods[name].code if name in self.methods else {}

    def stem(self, name: str, stem: str) -> str:
        """Folder name of a recipe's runs, different for each version of a custom method."""
        return f"{stem}-{self.methods[name].version}" if name in self.methods else stem

    def options(self, name: str) -> list[str]:
        """Options of `train` for a recipe."""
        plugins = self.methods[name].plugins.values() if name in self.methods else ()
        given = [word for plugin in plugins for word in ("--plugin", plugin.given)]
        return ["--recipe", self.recipe(name), *given]

    def changed(self, finished: Finished, track: Track) -> str | None:
        """Why a finished run does not match the method's current version; None if it does.

        Args:
            finished: The run; recipes that are neither shipped nor listed here are not checked.
            track: Its track.

        Raises:
            UserError: The recipe cannot be used.
        """
        name, log = finished.cell.recipe, finished.log
        known = name in self.methods or name in names(RECIPES)
        if not known or log is None:
            return None
        was, now = log.start.plugins, self.code(name)
        for called in sorted({*was, *now}):
            if was.get(called) != now.get(called):
                then, today = (
                    digest_text(each[called]) if called in each else "not used"
                    for each in (was, now)
                )
                return f"plug-in {called} was {then} and is {today}"
        config = resolve_on_track(track, self.recipe(name), track.learning_rate.rates[0])
        method = config.model_dump(mode="json", include=set(METHOD))
        # A log contains a learner only if it is a custom one.
        logged = {"learner": None, **log.start.configuration}
        differing = [each for each in METHOD if each in logged and logged[each] != method.get(each)]
        return f"recipe {name} has another {' and '.join(differing)} now" if differing else None


SHIPPED_ONLY: Final = CustomMethods()


def custom_methods(study: Study, file: Path) -> CustomMethods:
    """Load a study file's own methods, which runs its plug-ins.

    Args:
        study: Its content.
        file: The study file; paths are relative to its folder.

    Raises:
        UserError: A recipe or a plug-in cannot be used.
    """
    methods = {}
    for recipe, plugins in study.recipes.items():
        place = file.parent / recipe
        if place.suffix not in YAML:
            raise UserError(f"{file}: recipes: {recipe} is not a YAML file")
        settings = read_recipe(str(place))
        given = [str(file.parent / each) if each.endswith(".py") else each for each in plugins]
        try:
            loaded = load_plugins(given)
        except UserError as error:
            said = str(error).removeprefix("--plugin ")
            raise UserError(f"{file}: recipes: {recipe}: {said}") from error
        code = {name: plugin.sha256 for name, plugin in loaded.items()}
        version = sha256_text(canonical_json([settings, code]))[:_VERSION]
        methods[place.stem] = CustomMethod(place, loaded, version)
    return CustomMethods(methods)
