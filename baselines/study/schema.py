"""The study file: tracks, recipes and seeds, and their order.

Blocks are priorities. Within a block, breadth comes before depth: one seed of every track and
recipe before a second seed of any.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import Field, ValidationError, model_validator

from baselines.config.layers import RECIPES, names
from benchmark.logs.lines import Word
from benchmark.submissions.format.faults import faults_of
from tasks.errors import UserError, suggestion
from tasks.strict import YAML, Strict, read_yaml

TABLE = Path(__file__).parents[1] / "studies" / "table.yaml"
"""The shipped study."""
INIT: Final = "init"
"""Recipe name of cells without training: the panel played with the init."""
SEEDS = (0, 1, 2)
"""Default seeds of a block."""

_EXAMPLES: Final = {
    "name": "name: my_study",
    "blocks": "blocks: [{tracks: [sokoban-standard], recipes: [grpo]}]",
    "tracks": "tracks: [sokoban-standard]",
    "recipes": "recipes: [grpo]",
    "seeds": "seeds: [0, 1, 2]",
    "more_seeds": "more_seeds: {grpo: [3, 4]}",
}
"""Examples for error messages, by field name."""
_OWN_EXAMPLE: Final = "recipes: {rank.yaml: [rank.py]}"
_DIMENSIONS: Final = {"advantage", "clipping", "aggregation"}

_Seed = Annotated[int, Field(ge=0, lt=2**63)]
_Seeds = Annotated[tuple[_Seed, ...], Field(min_length=1, max_length=100, strict=False)]
_Plugins = Annotated[tuple[str, ...], Field(max_length=100, strict=False)]
_Words = Annotated[tuple[Word, ...], Field(min_length=1, max_length=100, strict=False)]


class Block(Strict):
    """Runs of one priority: every recipe on every track.

    Attributes:
        tracks: Names of tracks.
        recipes: Names of shipped recipes and of the study's own.
        seeds: Seeds of every recipe.
        more_seeds: Additional seeds of some of these recipes.
    """

    tracks: _Words
    recipes: _Words
    seeds: _Seeds = SEEDS
    more_seeds: dict[Word, _Seeds] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        for name in ("tracks", "recipes"):
            listed = getattr(self, name)
            if twice := sorted({each for each in listed if listed.count(each) > 1}):
                raise ValueError(f"{name} lists {', '.join(twice)} twice")
        if others := sorted(set(self.more_seeds) - set(self.recipes)):
            raise ValueError(f"more_seeds names {', '.join(others)}, which recipes does not list")
        for recipe in self.recipes:
            seeds = self.seeds_of(recipe)
            if twice_seeds := sorted({seed for seed in seeds if seeds.count(seed) > 1}):
                raise ValueError(f"{recipe} has seed {twice_seeds[0]} twice")
        return self

    def seeds_of(self, recipe: str) -> tuple[int, ...]:
        """All seeds of a recipe, in order."""
        return (*self.seeds, *self.more_seeds.get(recipe, ()))


class Study(Strict):
    """A study file.

    Attributes:
        name: Name of the study.
        blocks: The blocks, in the order of their priority.
        recipes: Files of recipes that are not shipped, each with its plug-ins (files or modules);
            blocks refer to a recipe by its file name without the suffix.
    """

    name: Word
    blocks: Annotated[tuple[Block, ...], Field(min_length=1, max_length=100, strict=False)]
    recipes: dict[str, _Plugins] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _used(self) -> Self:
        own = custom_names(self)
        if twice := sorted({name for name in own if own.count(name) > 1}):
            raise ValueError(f"recipes has two files named {twice[0]}")
        if INIT in own:
            raise ValueError(f"recipes: {INIT} is the name of what is not trained; rename it")
        used = {recipe for block in self.blocks for recipe in block.recipes}
        if unused := sorted(set(own) - used):
            raise ValueError(
                f"recipes: no block runs {', '.join(unused)}; in a block, name a recipe's file "
                "without its ending"
            )
        return self


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One training run of a study.

    Attributes:
        track: Name of its track.
        recipe: Name of its recipe.
        seed: Its seed.
    """

    track: str
    recipe: str
    seed: int

    @property
    def stem(self) -> str:
        """The stem of its file names."""
        return f"{self.recipe}-s{self.seed}"

    @property
    def text(self) -> str:
        """Its name in messages."""
        return f"{self.track} {self.recipe} seed {self.seed}"


def read_study(path: Path) -> Study:
    """Read a study file; tracks are not looked up here.

    Raises:
        UserError: It cannot be read, breaks the schema, or names a recipe that is neither shipped
            nor its own.
    """
    content = read_yaml(path)
    try:
        study = Study.model_validate(content)
    except ValidationError as error:
        raise UserError(f"{path}: {_fault(error, content, path.parent)}") from error
    known = (*names(RECIPES), *custom_names(study))
    for number, block in enumerate(study.blocks, 1):
        for recipe in block.recipes:
            if recipe not in known:
                raise UserError(
                    f"{path}: block {number}: there is no shipped recipe {recipe!r}"
                    f"{suggestion(recipe, known)} (a file of yours goes into the study's recipes)"
                )
    return study


def _fault(error: ValidationError, content: object, folder: Path) -> str:
    """Describe a fault in a study file in one line, with an example."""
    if not isinstance(content, dict):
        return f"a study has fields, such as `{_EXAMPLES['name']}`"
    if "blocks" not in content and _DIMENSIONS & content.keys():
        return "this is a recipe, not a study, which names recipes: see baselines/README.md"
    if isinstance(files := content.get("recipes"), dict):
        for file in files:
            if str(file).endswith(YAML) and not (folder / file).is_file():
                return f"recipes: {folder / file} does not exist"
    fault = faults_of(error, Study)[0]
    # A trailing number is a list index.
    field = re.sub(r"\.\d+$", "", fault.field)
    own = field.startswith("recipes")
    example = _OWN_EXAMPLE if own else _EXAMPLES.get(field.rpartition(".")[2])
    return fault.text + (f", such as `{example}`" if example and fault.of_shape else "")


def custom_names(study: Study) -> tuple[str, ...]:
    """Names of a study's own recipes, in the order of their files."""
    return tuple(Path(file).stem for file in study.recipes)


def cells_of(study: Study) -> tuple[Cell, ...]:
    """All runs of a study in the order of execution, each once."""
    return tuple(dict.fromkeys(_ordered(study)))


def _ordered(study: Study) -> Iterator[Cell]:
    for block in study.blocks:
        most = max(len(block.seeds_of(recipe)) for recipe in block.recipes)
        for number in range(most):
            for track in block.tracks:
                for recipe in block.recipes:
                    seeds = block.seeds_of(recipe)
                    if number < len(seeds):
                        yield Cell(track, recipe, seeds[number])
