"""The study file: its order, and what is rejected before anything runs."""

import math
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from baselines.config.layers import RECIPES, names
from baselines.study.claims import read_claims
from baselines.study.current_tracks import current_tracks_of
from baselines.study.custom import custom_methods
from baselines.study.schema import Block, Cell, Study, cells_of, read_study
from baselines.tracks.registry import load_track
from benchmark.stability.collapse import WINDOW
from benchmark.track_schema import RateGrid
from tasks.errors import UserError

STUDIES = Path(__file__).parents[3] / "baselines" / "studies"


def study_file(folder: Path, text: str) -> Path:
    path = folder / "study.yaml"
    path.write_text(text, "utf-8")
    return path


def test_one_seed_of_every_cell_comes_before_the_second_of_any() -> None:
    first = Block(
        tracks=("t", "u"), recipes=("grpo", "gspo"), seeds=(0, 1), more_seeds={"gspo": (7,)}
    )
    second = Block(tracks=("t",), recipes=("grpo", "ppo"), seeds=(1, 2))
    assert cells_of(Study(name="s", blocks=(first, second))) == (
        Cell("t", "grpo", 0),
        Cell("t", "gspo", 0),
        Cell("u", "grpo", 0),
        Cell("u", "gspo", 0),
        Cell("t", "grpo", 1),
        Cell("t", "gspo", 1),
        Cell("u", "grpo", 1),
        Cell("u", "gspo", 1),
        Cell("t", "gspo", 7),
        Cell("u", "gspo", 7),
        # Seed 1 of grpo is already finished.
        Cell("t", "ppo", 1),
        Cell("t", "grpo", 2),
        Cell("t", "ppo", 2),
    )


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True), st.integers(1, 3))
def test_no_run_is_listed_twice(seeds: list[int], blocks: int) -> None:
    block = Block(tracks=("t",), recipes=("grpo", "gspo"), seeds=tuple(seeds))
    cells = cells_of(Study(name="s", blocks=(block,) * blocks))
    assert len(set(cells)) == len(cells) == 2 * len(seeds)


@pytest.mark.slow
def test_the_shipped_study_and_its_claims_can_be_run() -> None:
    study = read_study(STUDIES / "table.yaml")
    cells = cells_of(study)
    current_tracks = current_tracks_of(cells, "table.yaml")
    for claim in read_claims(STUDIES / "claims.yaml").claims:
        for track in claim.tracks:
            known = {cell.recipe for cell in cells if cell.track == track}
            assert set(claim.recipes) <= known, claim
            assert track in current_tracks
        for recipe in filter(None, (claim.collapses, claim.holds)):
            planned = sum((cell.track, cell.recipe) == (claim.track, recipe) for cell in cells)
            assert planned >= claim.least_seeds, claim
        if claim.holds is not None:
            # Runs with fewer validations can never show that they have not collapsed.
            for track in claim.tracks:
                settings = load_track(track).settings
                updates, every = (
                    settings["optimization"]["updates"],
                    settings["validation"]["every"],
                )
                assert math.ceil(updates / every) + 1 > WINDOW, claim
    # 13 recipes on two tracks, three seeds, two more of five of them; then the other blocks, and
    # those of AgentRL's claim on the stress track, a fourth seed of SAPO, SAPO_SM and GRPO_SM, and
    # a sixth of GSPO and SAMPO.
    stress = 13 * 3 + 5 * 2 + 4 * 3 + 3 + 3 + 2
    assert sum(cell.track == "sokoban-standard" for cell in cells) == 13 * 3 + 5 * 2 + 4 * 3
    assert sum(cell.track == "sokoban-stress" for cell in cells) == stress
    assert sum(cell.track == "tir_math-standard" for cell in cells) == 9 * 3


def test_the_papers_study_has_the_runs_that_its_claims_need() -> None:
    cells = cells_of(read_study(STUDIES / "paper" / "table.yaml"))
    planned = Counter((cell.track, cell.recipe) for cell in cells)
    claims = read_claims(STUDIES / "paper" / "claims.yaml").claims
    for claim in claims:
        for recipe in claim.recipes:
            assert planned[claim.track, recipe] >= claim.least_seeds, claim
    # Ten methods in three environments, six in mathematics, and two masked forms.
    assert len(planned) == 10 * 3 + 6 + 2
    assert {recipe for _, recipe in planned} <= set(names(RECIPES))
    for track in {track for track, _ in planned}:
        assert load_track(track).init.sha256 is None
        assert not isinstance(load_track(track).learning_rate, RateGrid)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ("{mine.yaml: []}", "recipes: no block runs mine; in a block, name a recipe's file"),
        ("{misspelled.yaml: []}", "misspelled.yaml does not exist"),
        ("{twice.yaml: [], a/twice.yaml: []}", "recipes has two files named twice"),
        ("{init.yaml: []}", "recipes: init is the name of what is not trained; rename it"),
        (
            "[there.yaml]",
            "recipes: must be lines of the form `NAME: ...`, such as `recipes: {rank.yaml: [rank.",
        ),
        ("{there.yaml: own.py}", "recipes.there.yaml: must be a list, such as `recipes: {rank.y"),
        ("{own.yaml: []}", "own.yaml does not exist"),
        ("{own: []}", "recipes: own is not a YAML file"),
        ("{grpo.yaml: []}", "grpo is the name of a shipped recipe"),
        ("{damaged.yaml: []}", "damaged.yaml"),
        ("{there.yaml: [own.py]}", "study.yaml: recipes: there.yaml: /"),
        ("{there.yaml: [own.py]}", "own.py is not a file"),
        ("{there.yaml: [none_of_these]}", "No module named 'none_of_these'"),
    ],
)
def test_wrong_custom_methods_are_refused_in_one_line(
    tmp_path: Path, files: str, message: str
) -> None:
    for name in ("grpo", "there", "mine", "init", "twice", "a/twice"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.yaml").write_text("clipping: {name: ppo}\n")
    (tmp_path / "damaged.yaml").write_text("{")
    listed = yaml.safe_load(files)
    names = {Path(name).stem for name in listed}
    used = ", ".join(sorted(names - {"mine", "misspelled"} | {"grpo"}))
    block = f"{{tracks: [sokoban-standard], recipes: [{used}]}}"
    path = study_file(tmp_path, f"name: s\nrecipes: {files}\nblocks: [{block}]\n")
    with pytest.raises(UserError, match=re.escape(message)) as refused:
        custom_methods(read_study(path), path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ("[{tracks: [t], recipes: [gpro]}]", "no shipped recipe 'gpro'; did you mean gspo, "),
        (
            "[{tracks: [t], recipes: [grpo], seed: [0]}]",
            "blocks.0.seed: there is no such field; did",
        ),
        (
            "[{tracks: [t], recipes: [grpo], seeds: 3}]",
            "must be a list, such as `seeds: [0, 1, 2]`",
        ),
        ("[{tracks: [t], recipes: [grpo, grpo]}]", "recipes lists grpo twice"),
        ("[{tracks: [t], recipes: [grpo], seeds: [0, 0]}]", "grpo has seed 0 twice"),
        ("[{tracks: [t], recipes: [grpo], more_seeds: {ppo: [3]}}]", "more_seeds names ppo"),
        ("[{tracks: [t], recipes: [grpo], more_seeds: {grpo: [2]}}]", "grpo has seed 2 twice"),
        ("[{tracks: [../t], recipes: [grpo]}]", "blocks.0.tracks.0: may only contain letters"),
        ("[]", "blocks: must not be empty"),
        ("[", "study.yaml, line 3, column 1 is not valid YAML: "),
    ],
)
def test_a_wrong_study_file_is_refused_in_one_line(
    tmp_path: Path, blocks: str, message: str
) -> None:
    path = study_file(tmp_path, f"name: s\nblocks: {blocks}\n")
    with pytest.raises(UserError) as refused:
        read_study(path)
    assert message in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: My Study\nblocks: []\n", "name: may only contain letters from A to Z, digits and"),
        (
            "advantage: {name: grpo}\nclipping: {name: ppo}\n",
            "this is a recipe, not a study, which",
        ),
        ("[]", "a study has fields, such as `name: my_study`"),
    ],
)
def test_what_is_no_study_is_refused_in_plain_words(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        read_study(study_file(tmp_path, text))


def test_a_study_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.yaml cannot be read: No such file"):
        read_study(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("track", "recipe", "message"),
    [
        ("sokoban-standart", "grpo", "did you mean sokoban-standard"),
        ("tir_math-standard", "gigpo", "compares turns of episodes"),
        ("tir_math-stress", "empg", "compares turns of episodes"),
    ],
)
def test_what_cannot_be_trained_is_an_error_of_the_file(
    track: str, recipe: str, message: str
) -> None:
    with pytest.raises(UserError, match=message) as refused:
        current_tracks_of([Cell(track, recipe, 0)], "study.yaml")
    assert str(refused.value).startswith(f"study.yaml: {track} {recipe}: ")
