"""Custom recipes and scales in files."""

from pathlib import Path

import pytest

from baselines.config.layers import RECIPES, resolve
from tests.baselines.config.chosen import clip, fault, write


def test_recipes_and_scales_of_ones_own(tmp_path: Path) -> None:
    recipe = write(
        tmp_path / "mine.yaml",
        {
            "advantage": {"name": "rloo"},
            "clipping": {"name": "cispo"},
            "aggregation": "seq-mean-token-sum",
        },
    )
    special = {"common": {"kl": {"coef": 0.5}}, "recipes": {"rloo": {"entropy_coef": 0.1}}}
    scale = write(
        tmp_path / "small.yaml",
        {"common": {"rollout": {"groups": 2}}, "tasks": {"sokoban": special}},
    )
    config = resolve(recipe, scale, ["sokoban"])
    assert (config.advantage.name, config.aggregation) == ("rloo", "seq-mean-token-sum")
    assert (config.rollout.groups, config.kl.coef, config.entropy_coef) == (2, 0.5, 0.0)
    elsewhere = resolve(recipe, scale, ["webshop"])
    assert (elsewhere.rollout.groups, elsewhere.kl.coef) == (2, 0.0)
    assert resolve("rloo", scale, ["sokoban"]).entropy_coef == 0.1


def test_the_name_of_a_file_does_not_decide_its_constants(tmp_path: Path) -> None:
    content = (RECIPES / "gspo.yaml").read_text("utf-8")
    recipe = write(tmp_path / "my_gspo.yaml", content)
    # The schema's limits; those of scale paper are for the shipped recipe on webshop.
    assert clip(resolve(recipe, "paper", ["webshop"])) == (4e-3, 3e-3)
    recipe = write(tmp_path / "gspo.yaml", content)
    line = fault(recipe=recipe)
    assert f"{recipe}: gspo is the name of a shipped recipe" in line
    assert line.endswith("rename the file, for example to my_gspo.yaml, or use --recipe gspo")
    assert "is the name of a shipped recipe" in fault(recipe=str(RECIPES / "gspo.yaml"))
    other = write(tmp_path / "GSPO.yml", content)
    assert f"{other}: gspo is the name of a shipped recipe" in fault(recipe=other)


@pytest.mark.parametrize("name", ["my recipe", "_x", ".x", "größe", "a" * 101])
def test_a_file_whose_name_cannot_stand_in_a_log_is_refused(name: str, tmp_path: Path) -> None:
    recipe = write(tmp_path / f"{name}.yaml", (RECIPES / "grpo.yaml").read_text("utf-8"))
    assert f"{recipe}: the file's name becomes the recipe's name: rename it to" in (
        fault(recipe=recipe)
    )


def test_a_scale_for_what_there_is_not_is_refused(tmp_path: Path) -> None:
    scale = write(tmp_path / "a.yaml", {"tasks": {"sokoban": {"recipes": {"gsop": {}}}}})
    assert fault(scale=scale) == (
        f"{scale}: tasks.sokoban.recipes: no shipped recipe is called 'gsop', and a "
        "custom recipe contains its own values; did you mean gspo, sapo or grpo?"
    )
    scale = write(tmp_path / "b.yaml", {"tasks": {"socoban": {}}})
    assert fault(scale=scale) == f"{scale}: tasks: unknown task 'socoban'; did you mean sokoban?"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("advantage: {name: [", ", line 2, column 1 is not valid YAML: "),
        (
            "kl: {coef: 1}\nclipping: {name: ppo}\nkl: {place: loss}\n",
            ", line 3, column 1 is not valid YAML: 'kl' is given twice",
        ),
        ("just a text", "must contain settings, like the shipped files"),
        ("", "must contain settings, like the shipped files"),
        (
            "clipping: {name: ppo}\naggregation: token-mean\n",
            "advantage is missing; a recipe needs advantage, clipping, aggregation",
        ),
    ],
)
def test_a_broken_recipe_is_one_line(content: str, message: str, tmp_path: Path) -> None:
    line = fault(recipe=write(tmp_path / "broken.yaml", content))
    assert "broken.yaml" in line
    assert message in line


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00advantage")
    assert "binary.yaml cannot be read: " in fault(recipe=str(path))


def test_an_unknown_part_of_a_scale_is_named(tmp_path: Path) -> None:
    scale = write(tmp_path / "s.yaml", {"task": {"sokoban": {}}})
    assert f"{scale}: task: Extra inputs are not permitted" in fault(scale=scale)
