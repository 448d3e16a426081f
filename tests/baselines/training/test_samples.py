"""Which texts of a rollout are saved."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from baselines.inits.registry import find_model
from baselines.rollouts.rows import Row
from baselines.training.samples import LONGEST, ROWS, write_samples
from benchmark.engines.core.chat import Chat


def test_a_few_rows_are_kept_as_text(tmp_path: Path) -> None:
    folder = find_model("tiny-sokoban").path
    assert folder is not None
    chat = Chat.load(folder)
    prompt, response = (
        np.array(chat.tokenizer(text, add_special_tokens=False)["input_ids"], np.int32)
        for text in ("push the box", "up")
    )
    ones = np.ones_like(response)
    row = Row(
        task="sokoban",
        group=3,
        member=1,
        turn=0,
        prompt_ids=prompt,
        response_ids=response,
        response_mask=ones,
        engine_log_probs=ones.astype(np.float32),
        versions=(0, 0),
        reward=1.5,
        penalty=0.1,
        step_reward=0.0,
        anchor="",
        success=True,
    )
    long = replace(row, prompt_ids=np.tile(prompt, 10_000))
    path = write_samples(tmp_path, 10, [row, long] * ROWS, chat)
    assert path == tmp_path / "samples/update-000010.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert len(lines) == ROWS and path.stat().st_size < 250_000
    assert lines[0] == {
        "task": "sokoban",
        "group": 3,
        "member": 1,
        "turn": 0,
        "prompt": "push the box",
        "response": "up",
        "reward": 1.5,
        "penalty": 0.1,
        "success": True,
    }
    assert LONGEST < len(lines[1]["prompt"]) < LONGEST + 40
    write_samples(tmp_path, 10, [row], chat)
    assert path.read_text("utf-8").count("\n") == 1
