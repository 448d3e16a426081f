"""Episodes with images: records store hashes, replays render them again, and reports show them."""

import base64
import json
import zlib
from pathlib import Path

import pytest

from benchmark.cli.main import main
from benchmark.evaluation.records import EpisodeRecord, short_hash
from benchmark.evaluation.replay import replay_run
from benchmark.evaluation.run_folder import read_manifest, read_run
from benchmark.evaluation.summarize import summarize
from benchmark.report.episodes import pack_episodes
from tasks.chat.images import Image
from tasks.chat.messages import plain_messages
from tasks.errors import UserError
from tasks.options import chosen_task
from tasks.seeding import canonical_json

PIXELS = chosen_task("sokoban", ["sokoban.view=pixels"])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two episodes of the expert, played by the command."""
    out = tmp_path_factory.mktemp("pixels") / "run"
    shown = ["--task", "sokoban/builtin", "--protocol", "pixels", "--limit", "2"]
    assert main(["eval", "--engine", "expert", *shown, "--out", str(out)]) == 0
    return out


def test_records_hold_the_hashes_of_what_was_seen(run: Path) -> None:
    manifest, (record, _) = read_run(run)
    assert manifest.panels[0].settings == {"view": "pixels"}
    entry = PIXELS.panel("builtin").entries[0]
    assert record.episode == entry.id
    view = PIXELS.episode(entry, 15).reset()
    (image,) = view.images
    assert record.images == (image.sha256[:16],)
    shown = canonical_json(plain_messages(view.messages))
    assert record.turns[0].prompt_hash == short_hash(shown)
    assert image.sha256 in shown
    after = [turn.images for turn in record.turns]
    assert all(len(images) == 1 for images in after)
    assert len({record.images, *after}) == 1 + len(after)
    line = json.loads((run / "episodes.jsonl").read_text("utf-8").splitlines()[0])
    assert line["images"] == [image.sha256[:16]]


def test_a_replay_draws_the_images_again(run: Path) -> None:
    manifest, records = read_run(run)
    assert [replay.differences for replay in replay_run(manifest, records)] == [(), ()]
    changed = json.loads(records[0].model_dump_json())
    changed["turns"][0]["images"] = ["0" * 16]
    changed["images"] = []
    (replay,) = replay_run(manifest, [EpisodeRecord.model_validate_json(json.dumps(changed))])
    found = [(each.turn, each.field, each.recorded) for each in replay.differences]
    assert found == [(None, "images", ()), (1, "images", ("0" * 16,))]


def test_the_report_holds_every_image(run: Path) -> None:
    manifest, records = read_run(run)
    packed = pack_episodes(manifest, records, summarize(manifest, records)).packed
    episodes = json.loads(zlib.decompress(base64.b64decode(packed)))["episodes"]
    for record, episode in zip(records, episodes, strict=True):
        shown = episode[-1]
        assert len(shown) == 1 + len(record.turns)
        files = [base64.b64decode(url.removeprefix("data:image/png;base64,")) for (url,) in shown]
        assert all(file.startswith(b"\x89PNG") for file in files)
    (first,) = PIXELS.episode(PIXELS.panel("builtin").entries[0], 15).reset().images
    assert isinstance(first, Image)
    assert episodes[0][-1][0] == [first.data_url]


def test_a_run_says_which_protocol_it_is(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The setting by itself gives the same run as the panel's name."""
    shown = ["--task", "sokoban/builtin", "--set", "sokoban.view=pixels", "--limit", "1"]
    assert main(["eval", "--engine", "expert", *shown, "--out", str(tmp_path)]) == 0
    by_setting, by_name = read_manifest(tmp_path), read_manifest(run)
    assert by_setting.panels == by_name.panels
    assert by_setting.overrides == by_name.overrides == {}
    said = capsys.readouterr().out
    assert f"pixels protocol {by_name.fingerprint[:8]}" in said
    assert "pixels protocol:" not in said
    report = (run / "report.html").read_text("utf-8")
    assert "pixels protocol pixels-1" in report
    assert "Not the pixels protocol" not in report


def test_a_run_from_before_the_protocol_had_a_name(run: Path, tmp_path: Path) -> None:
    """The old run lists the setting as an override."""
    now = json.loads((run / "run.json").read_text("utf-8"))
    old = tmp_path / "run.json"
    old.write_text(json.dumps(now | {"overrides": {"sokoban.view": "pixels"}}))
    assert read_manifest(tmp_path) == read_manifest(run)
    old.write_text(json.dumps(now | {"overrides": {"sokoban.view": "text"}}))
    with pytest.raises(UserError, match="overrides do not match the panels"):
        read_manifest(tmp_path)


def test_a_record_of_texts_says_nothing_of_images(tmp_path: Path) -> None:
    out = tmp_path / "run"
    played = ["--task", "sokoban/builtin", "--limit", "1", "--out", str(out)]
    assert main(["eval", "--engine", "expert", *played]) == 0
    assert "images" not in (out / "episodes.jsonl").read_text("utf-8")
