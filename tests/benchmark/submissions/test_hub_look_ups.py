"""`arlarena-bench submit check` looks up an entry's models on the hub."""

import json
from pathlib import Path

import pytest

from benchmark.submissions.report import escaped
from tests.support.submissions.check_command import real_init, verdict_of
from tests.support.submissions.local_hub import Asked, Reply, serving
from tests.support.submissions.small import Copy, copied


def hub_models(copy: Copy) -> list[str]:
    """Replace a trained submission's weights by hub models; returns their paths on the hub."""
    return [hub_model(copy, seed) for seed in (0, 1)]


def hub_model(copy: Copy, seed: int) -> str:
    commit = str(seed) * 40
    model = {"kind": "hub", "name": "owner/model", "revision": commit, "sha256": None}
    copy.about(lambda about: about["checkpoints"][seed].update(model=model))
    copy.manifest(lambda run: run.update(model=model), f"runs/r{seed}")
    return f"/api/models/owner/model/revision/{commit}?expand=sha"


@pytest.mark.slow
def test_models_are_looked_up_on_the_hub(
    tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 0's commit exists, seed 1's does not; a hub that does not answer is named."""
    copy = copied(trained, tmp_path / "entries")
    real_init(copy)
    there, absent = hub_models(copy)

    def answer(asked: Asked) -> Reply:
        if asked.path == there:
            return Reply(json.dumps({"sha": "0" * 40}).encode())
        return Reply(b"", 404)

    with serving(answer) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        code, content, text = verdict_of(copy.folder)
        assert [asked.path for asked in server.asked] == [there, absent]
    assert code == 1
    (finding,) = content["findings"]
    assert (finding["file"], finding["field"]) == ("submission.json", "checkpoints.1.model")
    assert finding["problem"] == (
        f"owner/model (hub, revision {'1' * 40}): the hub has no public model with "
        "this name and commit"
    )
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code, content, text = verdict_of(copy.folder)
    assert code == 0
    (note,) = content["notes"]
    assert note.startswith("models were not looked up on the hub: owner/model at 0000")
    assert note.endswith("cannot be fetched: HF_HUB_OFFLINE is set, and 1 more")
    assert escaped(note) in text
