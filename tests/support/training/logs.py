"""Small valid training logs with invented numbers for tests to modify."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmark.logs.metrics import METRICS
from benchmark.logs.training_log import LOG
from benchmark.stats.intervals import wilson
from tasks.seeding import sha256_text, stable_seed

Line = dict[str, Any]


def without_times(line: Mapping[str, Any]) -> Line:
    """A log line without the fields that depend on the machine's speed."""
    measured = ("seconds", "memory", "speed")
    return {name: value for name, value in line.items() if not name.startswith(measured)}


def start_line(recipe: str = "grpo", seed: int = 0, **changes: Any) -> Line:
    fields: Line = {
        "kind": "start",
        "schema_version": 1,
        "created": "2026-01-02T03:04:05+00:00",
        "recipe": recipe,
        "configuration": {"recipe": recipe, "seed": seed, "optimizer": {"learning_rate": 3e-4}},
        "task": "sokoban",
        "init": {
            "name": "tiny-sokoban",
            "kind": "init",
            "revision": None,
            "sha256": sha256_text("init"),
        },
        "fingerprint": sha256_text("protocol"),
        "seed": seed,
        "engine": {"kind": "transformers", "dtype": "float32"},
        "versions": {"python": "3.11.7"},
    }
    return fields | changes


def measured_line(update: int, values: Mapping[str, Any] | None = None, seed: int = 0) -> Line:
    """An update line with all measurements of this project's trainer.

    Measurements of an optimizer step are fractions unique to the update and the seed.
    """
    whole = [name for name in METRICS if name.startswith("rollout/")]
    whole += ["policy/learning_rate", "policy/skipped_steps"]
    drawn = [name for name in METRICS if name.startswith(("kl_old/", "ratio/"))]
    drawn += ["policy/loss", "policy/grad_norm", "policy/grad_norm_max", "policy/entropy"]
    drawn += ["policy/advantage_std"]
    fields: Line = {**dict.fromkeys(whole, 0), "rollout/tries": 1, "policy/optimizer_steps": 8}
    fields |= {name: (1 + stable_seed(name, seed, update) % 99_998) / 1e5 for name in drawn}
    fields |= dict.fromkeys(("tokens/prompt", "tokens/response", "tokens/trained"), 9_000)
    return update_line(update, {**dict.fromkeys(METRICS), **fields, **(values or {})})


def update_line(update: int, values: Mapping[str, Any] | None = None, **changes: Any) -> Line:
    fields: Line = {"kind": "update", "update": update, "seconds_total": 5.0 * update}
    return fields | dict(values or {}) | changes


def validation_line(update: int, solved: int = 128, episodes: int = 256, **changes: Any) -> Line:
    interval = wilson(solved, episodes)
    fields: Line = {
        "kind": "validation",
        "update": update,
        "panel": "builtin",
        "episodes": episodes,
        "success": interval.value,
        "score": interval.value,
        "format_ok": 0.97,
        "action_ok": 0.95,
        "turns": 7.5,
        "fingerprint": sha256_text("builtin"),
        "wilson_low": interval.low,
        "wilson_high": interval.high,
        "seconds_total": 5.0 * update,
    }
    return fields | changes


def resume_line(
    update: int,
    engine: Mapping[str, Any] | None = None,
    versions: Mapping[str, str] | None = None,
) -> Line:
    fields: Line = {"engine": dict(engine or {}), "versions": dict(versions or {})}
    return {"kind": "resume", "update": update} | fields


def write_log(path: Path, lines: Iterable[Line]) -> Path:
    """Write lines, valid or not, to a file or a folder's log."""
    if path.suffix != ".jsonl":
        path.mkdir(parents=True, exist_ok=True)
        path = path / LOG
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def run_lines(
    recipe: str = "grpo",
    seed: int = 0,
    updates: int = 30,
    collapse_at: int | None = None,
    **changes: Any,
) -> Sequence[Line]:
    """A whole run: it improves from .45, and drops to nothing at once if it collapses."""
    lines = [start_line(recipe, seed, **changes), validation_line(0, solved=115)]
    for update in range(1, updates + 1):
        after = 0 if collapse_at is None else max(0, update - collapse_at)
        wave = 0.02 * math.sin(update + stable_seed(recipe, seed) % 7)
        rate = 0.45 + 0.3 * (1 - math.exp(-update / 12)) + wave
        rate = max(0.0, rate * (1 - after / 3))
        drift = 2e-4 * (1 + 0.3 * math.sin(update * 1.7 + seed)) * 3.0 ** min(after, 6)
        values = {
            "rollout/success": max(0.0, min(1.0, rate + 3 * wave)),
            "rollout/return": rate * 10 - 1,
            "rollout/format_ok": max(0.0, 0.98 - 0.2 * after),
            "rollout/group_std": 0.4 * rate,
            "tokens/prompt": 40_000,
            "tokens/response": 9_000 + 50 * update,
            "policy/grad_norm": 0.4 * (1 + 0.2 * math.cos(update + seed)) * 2.0 ** min(after, 8),
            "policy/entropy": 0.05 + 0.001 * update,
            "kl_old/clipped_mean": drift,
            "kl_init/clipped_mean": drift * update,
            "engine/k3": 2e-7 * (1 + 0.4 * math.sin(update * 2.3 + seed)) * 4.0 ** min(after, 5),
            "seconds/rollout": 3.0,
            "seconds/total": 5.0,
        }
        lines.append(update_line(update, values))
        lines.append(validation_line(update, solved=round(256 * min(rate, 1.0))))
    return lines
