"""The methods: a readable name and one sentence each, which opens wherever a method is named.

`tests/leaderboard/page/test_methods.py` compares them with the shipped recipes. Other recipes of
submissions keep their own names, without an explanation.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from benchmark.track_schema import DIMENSIONS, OPEN
from leaderboard.board.rows import BoardRow
from leaderboard.page.glossary import Word, explained_as, explanation
from leaderboard.page.markup import element, joined, line

_SM: Final = (
    " With the sequence mask (SM): a sequence with a negative advantage is dropped once it has "
    "drifted too far from the policy that sampled it."
)
_PPO: Final = "Token ratios are clipped as in PPO."
METHODS: Final[Mapping[str, Word]] = {
    "grpo": Word(
        "GRPO",
        (
            "Group Relative Policy Optimization. An episode is as good as its return relative to "
            f"the other episodes of its group; no critic. {_PPO} The baseline of every comparison.",
        ),
    ),
    "grpo_st": Word(
        "GRPO_ST",
        ("GRPO with the loss averaged within each sequence first (ST), then over sequences.",),
    ),
    "grpo_sm": Word("GRPO_SM", (f"GRPO.{_SM}",)),
    "dr_grpo": Word(
        "Dr. GRPO",
        (
            "GRPO without two of its biases: advantages are not divided by their standard "
            "deviation, and losses not by the length of the response.",
        ),
    ),
    "dapo_grpo": Word(
        "DAPO_GRPO",
        (
            "GRPO with DAPO\u2019s dynamic sampling: groups whose episodes all earn the same are "
            "replaced by new ones.",
        ),
    ),
    "gigpo": Word(
        "GiGPO",
        (
            "Group-in-Group Policy Optimization. Advantages compare whole episodes, and also turns "
            f"that begin at the same observation. {_PPO}",
        ),
    ),
    "dapo_gigpo": Word("DAPO_GiGPO", ("GiGPO with DAPO\u2019s dynamic sampling.",)),
    "gspo": Word(
        "GSPO",
        (
            "Group Sequence Policy Optimization. GRPO\u2019s advantages; one clipped ratio for a "
            "whole sequence instead of one for each token.",
        ),
    ),
    "cispo": Word(
        "CISPO",
        (
            "GRPO\u2019s advantages; the clipped ratio is a constant weight, so no token loses its "
            "gradient (tolerant clipping).",
        ),
    ),
    "cispo_sm": Word("CISPO_SM", (f"CISPO.{_SM}",)),
    "sapo": Word(
        "SAPO",
        (
            "Soft Adaptive Policy Optimization. GRPO\u2019s advantages; a smooth gate takes the "
            "place of the hard clip.",
        ),
    ),
    "sapo_sm": Word("SAPO_SM", (f"SAPO.{_SM}",)),
    "sampo": Word(
        "SAMPO",
        (
            "The method that ARLArena proposes: GiGPO\u2019s advantages, GSPO\u2019s sequence "
            "ratio, and dynamic sampling.",
        ),
    ),
    "empg": Word(
        "EMPG",
        (
            "Entropy-Modulated Policy Gradients. GRPO\u2019s advantages, weighted by the entropy "
            f"of turns: confident turns get more weight. {_PPO}",
        ),
    ),
    "ppo": Word(
        "PPO",
        (
            "Proximal Policy Optimization. A critic, trained alongside, estimates advantages "
            "(GAE); the ratios of tokens are clipped.",
        ),
    ),
    "rloo": Word(
        "RLOO",
        (
            "REINFORCE Leave-One-Out. The baseline of an episode is the mean return of the other "
            f"episodes of its group. {_PPO}",
        ),
    ),
    "reinforce_pp": Word(
        "REINFORCE++",
        (
            "The returns of tokens, standardized over the whole batch: no groups, no critic; the "
            f"KL penalty is part of the reward. {_PPO}",
        ),
    ),
    "agentrl": Word(
        "AgentRL",
        (
            "GRPO with advantages standardized within each task, and some turns sampled from an "
            "older policy.",
        ),
    ),
    "agentrl_norm": Word(
        "AgentRL_norm",
        (
            "AgentRL\u2019s normalization alone: GRPO with advantages standardized within each "
            "task.",
        ),
    ),
    "agentrl_cross": Word(
        "AgentRL_cross",
        ("AgentRL\u2019s cross-policy sampling alone: GRPO with some turns from an older policy.",),
    ),
}


def method_name(recipe: str) -> str:
    """The readable name of a recipe; its own name if it is not one of this project's."""
    known = METHODS.get(recipe)
    return known.title if known else recipe


def method(recipe: str) -> Markup:
    """A method's name, which opens its explanation if there is one."""
    if recipe not in METHODS:
        return line(recipe)
    return explained_as(f"method-{recipe}", METHODS[recipe].title)


def method_of(row: BoardRow) -> str:
    """The method of an entry, to stand beside its name, which is free text of its authors.

    Off tracks, a recipe's name is as free, so the choices in the training logs follow if they are
    known. An entry that was not trained has its kind instead.
    """
    if row.kind != "trained":
        return row.kind
    known = [getattr(row.choices, dimension) for dimension in DIMENSIONS]
    if row.track != OPEN or None in known:
        return method_name(row.method)
    return f"{method_name(row.method)} (logs: {', '.join(known)})"


def entry_name(row: BoardRow) -> Markup:
    """The name of an entry, with `method_of` beside it."""
    return joined([line(row.name), " ", element("span", line(method_of(row)), "lb-soft")])


def method_explanations() -> Markup:
    """All explanations of methods, to include once in the page."""
    return joined(explanation(f"method-{name}", word) for name, word in METHODS.items())


def short_tracks(tracks: Sequence[str]) -> list[str]:
    """Names of tracks, without the task if all (except those of all tasks) have the same."""
    tasks = {track.rpartition("-")[0] for track in tracks if not track.startswith("all-")}
    task = f"{tasks.pop()}-" if len(tasks) == 1 else ""
    return [track.removeprefix(task) for track in tracks]
