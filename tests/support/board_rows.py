"""Synthetic boards built from rows, with any number of entries and training curves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmark.logs.curves import Points, RunCurves
from benchmark.stability.seeds import recipe_stability
from benchmark.stats.intervals import clustered_wilson, wilson
from leaderboard.board.board import Board, load
from leaderboard.board.curves import seed_curves
from leaderboard.board.entries import stability_row
from leaderboard.board.file import PARQUET, VERSION, BoardContent, parquet_bytes
from leaderboard.board.protocols import BoardFacts, PanelFacts, Protocol
from leaderboard.board.rows import (
    BoardBadges,
    BoardCheckpoint,
    CategorySuccess,
    DeclaredData,
    FullRow,
    Model,
    Outcomes,
    PanelNumbers,
    RecipeChoices,
    SeedSuccess,
)
from leaderboard.board.training_rows import SeedCurves, Stability
from tasks.seeding import sha256_text, stable_seed

PROTOCOL = "v1"
UPDATES = 200
VALIDATE_EVERY = 5
PANELS = (
    ("alfworld", "builtin", "ALFWorld", "points", 144),
    ("alfworld", "valid_seen", "ALFWorld", "points", 140),
    ("sokoban", "builtin", "Sokoban", "points", 256),
    ("tir_math", "builtin", "TIR Math", "%", 250),
    ("tir_math", "aime24", "TIR Math", "%", 30),
    ("webshop", "builtin", "WebShop", "%", 256),
    ("webshop", "small_1000", "WebShop", "%", 200),
)
"""(task, panel, title, unit of the score, episodes)."""
FIELD = ("valid_seen", "aime24", "small_1000")
SETTING = "16 \u00d7 8 episodes, 150 updates, 1 epoch, KL 0.01"


def choices(
    advantage: str, clipping: str, aggregation: str, sampling: str, setting: str = SETTING
) -> RecipeChoices:
    """A recipe without constants in the names of its choices and setting."""
    known = (advantage, clipping, aggregation, sampling, setting)
    return RecipeChoices(*known, hashes=tuple(map(sha256_text, known)))


RECIPES = {
    "grpo": choices("grpo", "ppo", "token-mean", "plain"),
    "grpo_st": choices("grpo", "ppo", "seq-mean-token-mean", "plain"),
    "gspo": choices("grpo", "gspo", "seq-mean-token-mean", "plain"),
    "cispo": choices("grpo", "cispo", "token-mean", "plain"),
    "cispo_sm": choices("grpo", "cispo + sequence mask", "token-mean", "plain"),
    "gigpo": choices("gigpo", "ppo", "token-mean", "plain"),
    "dapo_grpo": choices("grpo", "ppo", "token-mean", "dynamic"),
    "sampo": choices("gigpo", "gspo", "seq-mean-token-mean", "dynamic"),
}
UNKNOWN = RecipeChoices(None, None, None, None, None)
SIZES = {"tiny-sokoban": 407_904, "Qwen3-0.6B": 600_000_000, "Qwen3-4B": 4_000_000_000}

Counts = npt.NDArray[np.int64]


def panel_facts(
    task: str, panel: str, title: str, unit: str, episodes: int, protocol: str = PROTOCOL
) -> PanelFacts:
    return PanelFacts(
        task=task,
        panel=panel,
        title=title,
        field=panel in FIELD or task == "sokoban",
        fingerprint=sha256_text(f"{protocol} {task}/{panel}"),
        protocol=f'{{"panel":"{panel}","task":"{task}"}}',
        category_name="kind",
        score_name="score",
        score_unit=unit,
        episodes=tuple(f"{panel}-{number:04d}" for number in range(episodes)),
        categories=tuple(f"kind {number % 5}" for number in range(episodes)),
    )


def panel_numbers(facts: PanelFacts, solved: Sequence[Counts]) -> PanelNumbers:
    """The results of a panel that every checkpoint has played once, 0 or 1 for each episode."""
    total = np.sum(solved, axis=0)
    plays = len(solved)
    interval = clustered_wilson(total.tolist(), [plays] * total.size)
    seeds = []
    for seed, each in enumerate(solved):
        own = wilson(int(each.sum()), each.size)
        seeds.append(SeedSuccess(seed, own.value, own.low, own.high))
    categories = []
    for category in dict.fromkeys(facts.categories):
        there = np.array([each == category for each in facts.categories])
        count = int(there.sum())
        own = wilson(round(float(total[there].sum()) / plays), count)
        categories.append(CategorySuccess(category, own.value, own.low, own.high, count))
    return PanelNumbers(
        task=facts.task,
        panel=facts.panel,
        fingerprint=facts.fingerprint,
        success=interval.value,
        low=interval.low,
        high=interval.high,
        episodes=total.size,
        plays=plays,
        seeds=tuple(seeds),
        categories=tuple(categories),
        score=10 * interval.value,
        format_valid=0.9 + interval.value / 10,
        action_valid=0.85 + interval.value / 10,
        turns=12 - 6 * interval.value,
        errors=0,
    )


def board_row(
    entry: str,
    solved: Mapping[PanelFacts, Sequence[Counts]],
    trainings: tuple[Stability, tuple[SeedCurves, ...]] | None = None,
    **changes: Any,
) -> FullRow:
    """An entry that has solved the given episodes of the given panels.

    Args:
        entry: Its id, whose first eight digits are the date.
        solved: For each panel, one array per checkpoint with 0 or 1 for every episode.
        trainings: Stability and curves, if the entry has logs.
        changes: Fields to override.
    """
    seeds = range(len(next(iter(solved.values()))))
    fields: dict[str, Any] = {
        "protocol": PROTOCOL,
        "id": entry,
        "name": entry[9:],
        "date": f"{entry[:4]}-{entry[4:6]}-{entry[6:8]}",
        "authors": ("Ada Lovelace",),
        "contact": "https://example.org/ada",
        "kind": "trained",
        "recipe": "grpo",
        "track": "open",
        "description": "As the name says.",
        "code": "https://example.org/code",
        "paper": None,
        "base_model": "tiny-sokoban",
        "parameters": 407_904,
        "init": Model("tiny-sokoban", "init", None, sha256_text("init")),
        "training_data": DeclaredData("Levels of the training stream.", ("sokoban",), False),
        "choices": UNKNOWN,
        "badges": BoardBadges(True, "logs" if trainings else "none", "fixed", False, None),
        "checkpoints": tuple(
            BoardCheckpoint(
                seed,
                Model(f"{entry[9:]}-s{seed}", "folder", None, sha256_text(f"{entry} {seed}")),
                ("transformers float32 cpu",),
                (f"arlarena-bench eval --model runs/{entry[9:]}-s{seed}/best",),
                sha256_text(f"log {entry} {seed}") if trainings else None,
                f"update {UPDATES} of {UPDATES}, the last one" if trainings else None,
            )
            for seed in seeds
        ),
        "panels": tuple(panel_numbers(facts, each) for facts, each in solved.items()),
        "stability": trainings[0] if trainings else None,
        "submission_sha256": sha256_text(entry),
        "curves": trainings[1] if trainings else (),
        "outcomes": tuple(
            Outcomes(facts.task, facts.panel, tuple(np.sum(each, axis=0).tolist()))
            for facts, each in solved.items()
        ),
    }
    return FullRow(**fields | changes)


def board_content(rows: Sequence[FullRow], *panels: PanelFacts) -> BoardContent:
    """A board of one protocol."""
    return BoardContent(BoardFacts(VERSION, (Protocol(PROTOCOL, panels),), ()), tuple(rows))


def board_of(folder: Path, content: BoardContent) -> Board:
    """Write a board and read it as the app does."""
    path = folder / PARQUET
    path.write_bytes(parquet_bytes(content))
    return load(path)


def synthetic_content(entries: int, curves: int) -> BoardContent:
    """A board as large as it may be in some years.

    Args:
        entries: Number of entries: a few policies and inits, the rest trained with all recipes.
        curves: Total number of training curves, 200 updates each.
    """
    rng = np.random.default_rng(0)
    panels = [panel_facts(*facts) for facts in PANELS]
    hardness = {facts: rng.normal(0, 1.5, len(facts.episodes)) for facts in panels}
    trained = [number for number in range(entries) if number >= min(6, entries // 4)]
    shares = np.diff(np.linspace(0, curves, len(trained) + 1).round().astype(int))
    rows = []
    for number in range(entries):
        logs = int(shares[trained.index(number)]) if number in trained else 0
        rows.append(_synthetic_row(rng, number, logs, hardness))
    return board_content(sorted(rows, key=lambda row: row.id), *panels)


@dataclass(frozen=True, slots=True)
class _Story:
    """How the seeds of an entry fared: the rate they reach, and when they collapse, if at all."""

    ability: float
    collapse_at: tuple[int | None, ...]


def _synthetic_row(
    rng: np.random.Generator,
    number: int,
    logs: int,
    hardness: dict[PanelFacts, npt.NDArray[np.float64]],
) -> FullRow:
    kind = "trained" if logs else ("policy", "init")[number % 2]
    recipe = list(RECIPES)[number % len(RECIPES)]
    base = list(SIZES)[number % len(SIZES)]
    seeds = max(logs, 1)
    collapses = tuple(
        int(rng.integers(60, UPDATES)) if rng.random() < 0.2 else None for _ in range(seeds)
    )
    story = _Story(float(rng.normal(0.5, 0.8)), collapses)
    chosen = [facts for facts in hardness if rng.random() < 0.8] or [next(iter(hardness))]
    solved = {}
    for facts in chosen:
        odds = story.ability - hardness[facts]
        chance = 1 / (1 + np.exp(-odds))
        solved[facts] = [(rng.random(chance.size) < chance).astype(np.int64) for _ in range(seeds)]
    name = f"{recipe}-{number:03d}"
    day = np.datetime64("2026-01-01") + number
    changes: dict[str, Any] = {"name": f"{recipe} {base} {number}", "recipe": recipe}
    changes |= {"base_model": base, "parameters": SIZES[base], "choices": RECIPES[recipe]}
    if kind != "trained":
        none = kind == "policy"
        model = Model("expert" if number % 4 else "random", "policy", None, None)
        model = model if none else Model(f"init-{number}", "init", None, sha256_text(name))
        changes["checkpoints"] = (
            BoardCheckpoint(0, model, ("transformers float32 cpu",), (), None, None),
        )
        changes |= {"kind": kind, "init": None, "choices": UNKNOWN}
        changes |= {"base_model": None, "parameters": None, "training_data": None} if none else {}
        changes["badges"] = BoardBadges(True, "none", None if none else "fixed", False, None)
    trainings = _trainings(name, story) if logs else None
    row = board_row(f"{str(day).replace('-', '')}_{name}", solved, trainings, **changes)
    open_init = kind == "trained" and number % 4 == 1
    return replace(row, badges=replace(row.badges, init="open")) if open_init else row


def _trainings(name: str, story: _Story) -> tuple[Stability, tuple[SeedCurves, ...]]:
    runs = [
        training_run(name, seed, story.ability, collapse_at, stable_seed(name, seed))
        for seed, collapse_at in enumerate(story.collapse_at)
    ]
    found = recipe_stability(runs, resamples=200)
    curves = (
        seed_curves(run, one, "sokoban/builtin") for run, one in zip(runs, found.runs, strict=True)
    )
    return stability_row(found), tuple(curves)


def training_run(
    name: str, seed: int, ability: float, collapse_at: int | None, noise: int
) -> RunCurves:
    """A noisy training run that improves and may collapse at a given update."""
    rng = np.random.default_rng(noise)
    updates = np.arange(1, UPDATES + 1)
    checks = np.arange(0, UPDATES + 1, VALIDATE_EVERY)
    fallen = np.maximum(0, checks - (collapse_at or 10**6))
    top = 1 / (1 + np.exp(-ability))
    rate = 0.2 + (top - 0.2) * (1 - np.exp(-checks / 40))
    rate = np.clip((rate + rng.normal(0, 0.02, checks.size)) * np.exp(-fallen / 15), 0, 1)
    after = np.maximum(0, updates - (collapse_at or 10**6))
    jump = np.exp(np.minimum(after, 60) / 12)
    spread = np.exp(rng.normal(0, 0.3, (4, UPDATES)))
    curves = {
        "policy/grad_norm": Points(updates, 0.4 * spread[0] * jump),
        "policy/entropy": Points(updates, 0.3 * spread[1] * np.exp(-updates / 400)),
        "kl_init/mean": Points(updates, 1e-4 * updates * spread[2] * jump),
        "engine/k3": Points(updates, 2e-7 * spread[3] * jump),
        "validation/success": Points(checks, np.round(rate * 256) / 256),
        "validation/format_ok": Points(checks, np.clip(0.98 - fallen / 60, 0, 1)),
    }
    return RunCurves(name, "arlarena-bench", name, seed, curves)


def hostile(row: FullRow, text: str) -> FullRow:
    """A row with this text in every free-text field, which the page must show verbatim."""
    checkpoints = tuple(
        replace(
            point,
            model=replace(point.model, name=text),
            engines=(text,),
            commands=(text,),
        )
        for point in row.checkpoints
    )
    data = row.training_data
    return replace(
        row,
        name=text,
        authors=(text, text),
        contact=text,
        recipe=text,
        description=text,
        code=text,
        paper=text,
        base_model=text,
        init=Model(text, "folder", None, sha256_text("init")),
        training_data=replace(data, statement=text) if data else None,
        choices=RecipeChoices(text, text, text, text, text),
        checkpoints=checkpoints,
    )
