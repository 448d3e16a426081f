"""Claims that a study should decide: a YAML file with the rule of each."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, ValidationError, model_validator

from baselines.config.layers import RECIPES, names
from baselines.tracks.registry import track_names
from benchmark.logs.lines import Word
from tasks.errors import UserError, suggestion
from tasks.strict import Strict, first_fault, read_yaml

LEAST_SEEDS: Final = 3
"""Minimum seeds of every method for a decision."""
LEAST_OF_ONE: Final = 6
"""The same for collapses of one method: if half of all runs collapse, 5 of 5 do 1 time in 32."""
LEAST_OF_TWO: Final = 4
"""The same for those of two methods: with 3 and 3 seeds, chance picks one method's 1 time in 20."""


class Claim(Strict):
    """One claim.

    It has one rule: `better`, `best`, `learns`, `compared`, or `collapses` and `holds`.

    Success is the track's score, the mean over its tasks. Methods are judged after equal updates,
    as in papers; if they have not played equally many episodes, their difference at equal episodes
    is also given.

    Attributes:
        claim: The claim in one sentence.
        of: Its source; empty for one of the track's own.
        track: The track.
        better: The first method ends higher than the second one. Reproduced if the interval of the
            difference is above 0, contradicted if it is below.
        best: The method ends higher than every other method of the track. Reproduced if all
            differences are above 0, contradicted if one is below.
        among: The methods that `best` is compared with; if empty, all of the track.
        learns: The one of these methods with the largest gain improves on its init. Reproduced if
            it gains `gain` and the interval is above `by`, contradicted if the interval is below
            the larger of the two. One method with all its seeds is enough to reproduce it.
        gain: Minimum gain, a difference of success rates.
        by: Bound that the interval of the gain must exceed.
        compared: The method, trained on this track, is compared with the same method trained on
            the tracks of `against`. Reproduced if the interval of the difference is above `above`,
            contradicted if it is below.
        against: Other tracks that together have the panels of this one: one with all of them, or
            one for each.
        above: Bound for the difference of success rates; -0.05 allows a loss of 5 points.
        at: When methods are compared: at the end of their runs, or after the training seconds of
            the shortest one, which are comparable only between equal machines.
        collapses: More than half of the method's runs collapse. Alone: reproduced if at least this
            many collapsed seeds are rare (`RARE`) when half collapse, contradicted if at most this
            many are.
        holds: Fewer than half do, likewise. With both, more runs of the first method collapse
            than of the second: reproduced if such a large share of the collapsed seeds being the
            first's is rare by chance (Fisher's exact test), contradicted if it is the second's.
        also: Further tracks for comparing `collapses` and `holds`, with runs compared within their
            own track; all tracks decide together.
        post_hoc: The claim, its margin or the rule of its verdict was written when its numbers
            were known.
    """

    claim: Annotated[str, Field(min_length=1, max_length=300)]
    of: Annotated[str, Field(max_length=100)] = ""
    track: Word
    better: Annotated[tuple[Word, Word], Field(strict=False)] | None = None
    best: Word | None = None
    among: Annotated[tuple[Word, ...], Field(strict=False)] = ()
    learns: Annotated[tuple[Word, ...], Field(strict=False, min_length=1)] | None = None
    gain: Annotated[float, Field(ge=0, lt=1)] = 0.0
    by: Annotated[float, Field(ge=0, lt=1)] = 0.0
    compared: Word | None = None
    against: Annotated[tuple[Word, ...], Field(strict=False)] = ()
    above: Annotated[float, Field(gt=-1, lt=1)] = 0.0
    at: Literal["end", "seconds"] = "end"
    collapses: Word | None = None
    holds: Word | None = None
    also: Annotated[tuple[Word, ...], Field(strict=False)] = ()
    post_hoc: bool = False

    @model_validator(mode="after")
    def _one_rule(self) -> "Claim":
        held = self.collapses or self.holds
        rules = [self.better, self.best, self.learns, self.compared, held]
        if sum(rule is not None for rule in rules) != 1:
            raise ValueError(
                "give one rule: better, best, learns, compared, or collapses and holds"
            )
        if (self.by or self.gain) and self.learns is None:
            raise ValueError("by and gain belong to learns")
        if self.among and self.best is None:
            raise ValueError("among belongs to best")
        if bool(self.against) != (self.compared is not None):
            raise ValueError("compared and against belong together")
        if (self.above or self.at != "end") and self.compared is None:
            raise ValueError("above and at belong to compared")
        if self.also and not (self.collapses and self.holds):
            raise ValueError("also belongs to collapses with holds")
        if self.at == "seconds" and len(self.against) > 1:
            raise ValueError("at: seconds compares with one track")
        return self

    @property
    def title(self) -> str:
        """The claim, preceded by its source."""
        return f"{self.of}: {self.claim}" if self.of else self.claim

    @property
    def tracks(self) -> tuple[str, ...]:
        """The tracks of the claim."""
        return (self.track, *self.also)

    @property
    def least_seeds(self) -> int:
        """Minimum seeds of every method for deciding it."""
        if self.collapses and self.holds:
            return LEAST_OF_TWO
        return LEAST_OF_ONE if self.collapses or self.holds else LEAST_SEEDS

    @property
    def recipes(self) -> tuple[str, ...]:
        """The methods that it names."""
        several = (*(self.better or ()), *self.among, *(self.learns or ()))
        named = (*several, self.best, self.compared, self.collapses, self.holds)
        return tuple(recipe for recipe in named if recipe is not None)


class Withdrawn(Strict):
    """A withdrawn claim, which the study no longer decides.

    Attributes:
        claim: The claim.
        track: The track.
        known: Results of its runs at that time.
        why: Why it was withdrawn.
    """

    claim: Annotated[str, Field(min_length=1, max_length=300)]
    track: Word
    known: Annotated[str, Field(min_length=1, max_length=300)]
    why: Annotated[str, Field(min_length=1, max_length=300)]


class Pilot(Strict):
    """A run that was used to design a track, and is excluded from claims about collapses.

    Attributes:
        track: The track.
        recipe: Its method.
        seed: Its seed.
        why: The design decision.
    """

    track: Word
    recipe: Word
    seed: Annotated[int, Field(ge=0)]
    why: Annotated[str, Field(min_length=1, max_length=300)]


class Claims(Strict):
    """A file of claims.

    Attributes:
        claims: The claims to judge.
        pilots: Runs that are excluded from claims about collapses.
        withdrawn: Withdrawn claims, which readers of the verdicts must know about.
    """

    claims: Annotated[tuple[Claim, ...], Field(max_length=1000, strict=False)] = ()
    pilots: Annotated[tuple[Pilot, ...], Field(max_length=1000, strict=False)] = ()
    withdrawn: Annotated[tuple[Withdrawn, ...], Field(max_length=1000, strict=False)] = ()


def read_claims(path: Path) -> Claims:
    """Read a file of claims.

    Raises:
        UserError: It cannot be read, breaks the schema, or names an unknown track or recipe.
    """
    try:
        found = Claims.model_validate(read_yaml(path))
    except ValidationError as error:
        raise UserError(f"{path}: {first_fault(error)}") from error
    tracks, recipes = track_names(), names(RECIPES)
    named = [(c.claim, (*c.tracks, *c.against), c.recipes) for c in found.claims]
    named += [(p.why, (p.track,), (p.recipe,)) for p in found.pilots]
    for text, its_tracks, its_recipes in named:
        for kind, words, known in (("track", its_tracks, tracks), ("recipe", its_recipes, recipes)):
            for word in words:
                if word not in known:
                    raise UserError(
                        f"{path}: {text!r}: there is no {kind} {word!r}{suggestion(word, known)}"
                    )
    return found
