"""Plug-ins: loading, hashes, and rejection; a run with other code is another run."""

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from baselines.algorithms.advantage.base import Advantage
from baselines.algorithms.advantage.grpo import GRPO
from baselines.algorithms.part import own_code
from baselines.algorithms.plugins import load_plugin, load_plugins
from baselines.config.layers import resolve
from baselines.config.run import TrainingRun
from baselines.inits.registry import find_model
from tasks.errors import UserError
from tasks.registry import load_task
from tasks.seeding import canonical_json, sha256_text
from tests.support.training.plugins import LONGER, RANK, sha256_of


@pytest.fixture(autouse=True)
def _no_choice_is_left() -> Iterator[None]:
    yield
    Advantage.choices.pop("rank", None)


def test_a_plugin_is_named_and_hashed_and_its_file_runs_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "rank.py"
    for content in (RANK, LONGER):
        path.write_text(content)
        found = load_plugin(str(path))
        assert (found.name, found.given) == ("rank.py", str(path))
        assert found.sha256 == hashlib.sha256(content.encode()).hexdigest()
        # The longer version has one more constant.
        fields = Advantage.choices["rank"].model_fields
        assert ("scale" in fields) == (content is LONGER)
    assert [each.name for each in tmp_path.iterdir()] == ["rank.py"]


@pytest.mark.parametrize("file", ["rank_module.py", "rank_module/__init__.py"])
def test_of_a_module_the_file_is_hashed_that_it_was_loaded_from(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(RANK)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "rank_module", raising=False)
    # The plug-in is imported once; the second time, its choices are already registered.
    for _ in range(2):
        found = load_plugin("rank_module")
        assert (found.name, found.sha256) == ("rank_module", sha256_of(RANK))
    monkeypatch.delitem(sys.modules, "rank_module")


def test_a_plugin_may_bring_the_choices_of_another_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere_rank.py").write_text(RANK)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "rank.py").write_text("import elsewhere_rank\n")
    assert load_plugin(str(tmp_path / "rank.py")).sha256 == sha256_of("import elsewhere_rank\n")
    monkeypatch.delitem(sys.modules, "elsewhere_rank")


def test_what_adds_no_choice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rank.py"
    path.write_text("class Rank: pass\n")
    message = (
        "adds no choice: it needs a subclass of Advantage, Clipping or CustomLearner with name"
    )
    for name in (str(path), "json.tool"):
        with pytest.raises(UserError, match=f"--plugin {name} {message}"):
            load_plugin(name)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (RANK.replace("def of(", "def off("), r"Rank lacks of\(\) \(.*rank\.py, line \d+\)"),
        (
            RANK.replace('name: Literal["rank"]', "name"),
            r"Field 'name' .* attribute: write it with its type, name: .*rank\.py.*\)",
        ),
        (
            RANK.replace('"rank"\n', '"rank"\n    share = 1\n'),
            r"A non-annotated attribute was detected: `share = 1`: write it .*rank\.py.*\)",
        ),
        ("\nX = Litral\n", r"NameError: name 'Litral' is not defined \(.*rank\.py, line 2\)"),
        ("def f():\n    open('/no/such')\nf()\n", r"FileNotFoundError: .*rank\.py, line 2\)"),
        ("import json\njson.loads('{')\n", r"Expecting property name .*rank\.py, line 2\)"),
        ("def f(:\n", r"invalid syntax \(.*rank\.py, line 1\)"),
    ],
)
def test_code_that_cannot_be_imported_is_one_line_with_its_place(
    content: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "rank.py"
    path.write_text(content)
    with pytest.raises(UserError, match=f"--plugin {path} cannot be imported: {said}$") as refused:
        load_plugin(str(path))
    assert "\n" not in str(refused.value)
    assert "rank" not in Advantage.choices


def test_an_error_of_a_plugin_is_one_line_with_its_place_and_of_shipped_code_passes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rank.py"
    path.write_text(RANK.replace("return rows.scores", "return rows.scores.view(7)"))
    load_plugin(str(path))
    broken = Advantage.choices["rank"](name="rank")
    rows = SimpleNamespace(scores=torch.zeros(2))

    def run(choice: Any) -> None:
        with own_code(choice, "the advantage rank"):
            choice.of(rows)

    said = r"the advantage rank \(Rank\) raises RuntimeError: shape .* \(.*rank\.py, line 14\)$"
    with pytest.raises(UserError, match=said):
        run(broken)
    with pytest.raises(AttributeError):
        run(GRPO())
    # The trainer gives advice when memory runs out.
    with pytest.raises(RuntimeError, match="memory"), own_code(broken, ""):
        raise RuntimeError("can't allocate memory")


def test_a_file_without_its_ending_is_named_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("my_rank.py", "my_rank.yaml"):
        (tmp_path / name).write_text("")
    with pytest.raises(UserError, match=r"'my_rank'; did you mean the file my_rank\.py\?$"):
        load_plugin("my_rank")
    with pytest.raises(UserError, match=r"my_rank; did you mean the file .*/my_rank\.py\?$"):
        load_plugin(str(tmp_path / "my_rank"))
    said = r"there is no shipped recipe 'my_rank'; did you mean the file my_rank\.yaml\?$"
    with pytest.raises(UserError, match=said):
        resolve("my_rank", "tiny", ["sokoban"], [])


def test_a_recipe_is_no_plugin(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mine\.yaml: a plug-in is a \.py file or a module; a rec"):
        load_plugin(str(tmp_path / "mine.yaml"))


def test_names_that_a_log_cannot_tell_apart_or_hold_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "rank.py" for folder in ("a", "b")]
    for path, content in zip(paths, (RANK, RANK), strict=True):
        path.parent.mkdir()
        path.write_text(content)
    one, other = map(str, paths)
    assert list(load_plugins([one, one])) == ["rank.py"]
    Advantage.choices.pop("rank")
    paths[1].write_text(RANK.replace('"rank"', '"order"'))
    with pytest.raises(UserError, match=r"a log would call both rank\.py; rename one"):
        load_plugins([one, other])
    Advantage.choices.pop("order")
    odd = tmp_path / "my rank.py"
    odd.write_text(RANK)
    with pytest.raises(UserError, match=r"cannot hold the name my rank\.py; use"):
        load_plugin(str(odd))
    assert "order" not in Advantage.choices


def test_a_module_without_a_file_is_refused_and_one_that_brings_known_choices_is_not(
    tmp_path: Path,
) -> None:
    with pytest.raises(UserError, match="has no file of its own"):
        load_plugin("itertools")
    brings = tmp_path / "brings.py"
    brings.write_text("from baselines.algorithms.advantage.rloo import RLOO\n")
    assert load_plugin(str(brings)).name == "brings.py"


def test_an_unknown_choice_ends_with_the_option_for_an_own_class() -> None:
    with pytest.raises(UserError, match=r"there is no 'rank'; there are .* --plugin FILE\.py\)$"):
        resolve("grpo", "tiny", ["sokoban"], ["advantage.name=rank"])


def test_the_identity_of_a_run_has_its_code_and_without_any_is_what_it_was() -> None:
    config, init = resolve("grpo", "tiny", ["sokoban"]), find_model("tiny-sokoban")
    plain = TrainingRun("grpo", config, (load_task("sokoban"),), init, 7, Path("run"))
    # Checkpoints written before plug-ins were hashed have this form.
    settings = plain.configuration
    for part, name in (
        ("optimization", "micro_batch_tokens"),
        ("optimization", "gradient_checkpointing"),
        ("optimization", "updates"),
        ("rollout", "concurrency"),
    ):
        del settings[part][name]
    del settings["checkpoint_every"]
    assert plain.sha256 == sha256_text(canonical_json([settings, init.identity.sha256, 7]))
    assert not any("plug-in" in name for name in plain.facts)
    one, other = (replace(plain, plugins={"rank.py": digit * 64}) for digit in "ab")
    assert len({plain.sha256, one.sha256, other.sha256}) == 3
    assert one.facts == plain.facts | {"plug-in rank.py": "a" * 64}
