"""Small logs of another trainer, and runs of its checkpoints."""

import json
from pathlib import Path
from typing import Any

from benchmark.models import ModelIdentity
from tasks.seeding import sha256_text, stable_seed
from tests.support.submissions.small import played_by

SOLVED = "eval_rewards/solved/mean"
MAP = f"validation/success={SOLVED}"
RATES = (0.25, 0.5, 0.75, 0.5)


def trainer_state(folder: Path, seed: int, rates: tuple[float, ...] = RATES) -> Path:
    """A TRL log with a validation after every step and different numbers for each seed."""
    folder.mkdir()
    history: list[dict[str, Any]] = []
    for step, rate in enumerate(rates):
        if step:
            noise = (stable_seed(seed, step) % 10_000) / 1e5
            history.append(
                {"step": step, "loss": noise + 1e-6, "grad_norm": 1.1 + noise, "kl": noise / 7,
                 "entropy": 2.3 - noise, "reward": 0.31 + noise}
            )  # fmt: skip
        history.append({"step": step, SOLVED: rate})
    state = {"log_history": history, "logging_steps": 1}
    (folder / "trainer_state.json").write_text(json.dumps(state))
    return folder


def run_folder(root: Path, seed: int, expert: Path, random: Path) -> Path:
    """A run of the seed's checkpoint."""
    model = ModelIdentity(name=f"trl-s{seed}", kind="folder", sha256=sha256_text(f"trl{seed}"))
    played = played_by(model, expert, random, stable_seed("foreign", seed))
    run = root / f"run-{seed}"
    run.mkdir()
    (run / "run.json").write_text(played.manifest.model_dump_json(indent=2) + "\n")
    lines = [record.model_dump_json() + "\n" for record in played.records]
    (run / "episodes.jsonl").write_text("".join(lines))
    return run
