"""`about.yaml`: all mistakes are explained at once in plain words, with an example."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmark.models import ModelIdentity
from benchmark.submissions.about import EXAMPLES, Kind, read_about
from benchmark.submissions.format.schema import Declaration
from benchmark.submissions.format.texts import PLACEHOLDERS
from tasks.errors import UserError, suggestion
from tasks.seeding import sha256_text

README = Path(__file__).parents[3] / "submissions" / "README.md"
INIT = ModelIdentity(name="tiny-sokoban", kind="init", sha256=sha256_text("init"))
DATA = {
    "statement": "Levels.",
    "training_streams": ["sokoban"],
    "other": False,
    "panel_episodes": False,
}
POLICY: dict[str, Any] = {
    "name": "The expert",
    "authors": ["Ada Lovelace"],
    "contact": "ada@example.org",
    "method": {"recipe": "expert", "description": "Looks ahead."},
}
TRAINED = POLICY | {
    "base_model": "tiny-sokoban",
    "parameters": 442_272,
    "init": "tiny-sokoban",
    "training_data": DATA,
}


def find_init(name: str) -> ModelIdentity:
    if name != INIT.name:
        raise UserError(f"there is no init or folder {name!r}{suggestion(name, (INIT.name,))}")
    return INIT


def read(folder: Path, about: object, kind: Kind = "policy") -> dict[str, Any]:
    path = folder / "about.yaml"
    path.write_text(about if isinstance(about, str) else yaml.safe_dump(about))
    return read_about(path, kind, "2026-01-02", find_init)


def mistakes(folder: Path, about: object, kind: Kind = "policy") -> str:
    """The message about an invalid file, without its name."""
    with pytest.raises(UserError) as caught:
        read(folder, about, kind)
    start, _, text = str(caught.value).partition("about.yaml")
    assert start == f"{folder}/"
    assert text.isprintable()
    return text


def test_what_is_left_out_is_null(tmp_path: Path) -> None:
    said = Declaration.model_validate(read(tmp_path, POLICY))
    assert (said.date, said.method.kind, said.weights, said.init) == (
        "2026-01-02",
        "policy",
        None,
        None,
    )
    said = Declaration.model_validate(read(tmp_path, TRAINED, "trained"))
    assert said.init == INIT


def test_an_e_mail_address_is_a_whole_one(tmp_path: Path) -> None:
    said = mistakes(tmp_path, POLICY | {"contact": "jane@doe"})
    assert said == ": contact: is not a whole e-mail address, such as `contact: name@lab.edu`"
    for contact in ("@jane", "Jane Doe, jane @ lab", "jane@doe.org", "https://example.org/@jane"):
        assert read(tmp_path, POLICY | {"contact": contact})["contact"] == contact


def test_all_mistakes_are_named_at_once_with_examples(tmp_path: Path) -> None:
    about = {
        "naem": "x",
        "name": "Gr\u00fc\u00df dich",
        "authors": "Ada Lovelace",
        "contact": 7,
        "method": {"recipe": "grpo", "describtion": "x", "description": "x", "code": "here"},
    }
    assert mistakes(tmp_path, about) == (
        ": 6 mistakes: (1) method.describtion: there is no such field; did you mean "
        "description?; (2) naem: there is no such field; did you mean name?; (3) "
        "name: may only contain letters from A to Z, digits, ._+()/- and single "
        "spaces, and must begin with a letter or digit; (4) authors: must be a list, "
        "such as `authors: [A. Name]`; (5) contact: must be a text, such as "
        "`contact: name@lab.edu`; (6) method.code: is too short"
    )


def test_every_example_is_taken_but_for_the_names_in_it(tmp_path: Path) -> None:
    for field, example in EXAMPLES.items():
        value = yaml.safe_load(example)
        assert list(value) == [field.rpartition(".")[2]]
        if field != "authors":
            head = field.partition(".")[0]
            inside = TRAINED.get(head)
            changed = {**inside, **value} if "." in field and isinstance(inside, dict) else None
            read(tmp_path, TRAINED | ({head: changed} if changed else value), "trained")


def test_what_a_policy_has_not_is_named_in_one_sentence(tmp_path: Path) -> None:
    sentence = (
        ": the run was played by a scripted policy: remove base_model, parameters, training_data, "
        "init"
    )
    assert mistakes(tmp_path, TRAINED) == sentence
    # Fields that must be removed need not be fixed first.
    wrong = {"parameters": "many", "init": "no-such-init", "training_data": 1}
    assert mistakes(tmp_path, TRAINED | wrong) == sentence


def test_what_weights_need_is_named_in_one_sentence(tmp_path: Path) -> None:
    assert mistakes(tmp_path, POLICY, "trained") == (
        ": the run was played by a trained checkpoint: give base_model, parameters, "
        "training_data, init"
    )
    assert mistakes(tmp_path, POLICY | {"init": "tiny-sokoban"}, "init") == (
        ": the run was played by an unchanged registered init: remove init; give "
        "base_model, parameters, training_data"
    )


def test_an_unknown_init_is_one_of_the_mistakes(tmp_path: Path) -> None:
    about = TRAINED | {"init": "tiny-sokobn", "contact": None}
    assert mistakes(tmp_path, about, "trained") == (
        ": 2 mistakes: (1) init: there is no init or folder 'tiny-sokobn'; did you "
        "mean tiny-sokoban?; (2) contact: must be a text, such as `contact: "
        "name@lab.edu`"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "name: a\ncontact: @ada\n",
            ", line 2, column 10 is not valid YAML: found character '@' that",
        ),
        ("name: a\nmethod: [\n", ", line 3, column 1 is not valid YAML: "),
        ("name: \x00", " is not valid YAML: "),
        ("just words", " must be lines of the form `name: ...`"),
        ("", " must be lines of the form `name: ...`"),
    ],
)
def test_what_is_no_yaml_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    assert mistakes(tmp_path, text).startswith(said)


def test_what_the_example_says_is_refused_as_it_is(tmp_path: Path) -> None:
    """The example is that of the documentation, and its personal parts are rejected as they are."""
    example = README.read_text("utf-8").split("```yaml\n")[1].split("```")[0]
    text = mistakes(tmp_path, example, "trained")
    for placeholder in PLACEHOLDERS:
        assert f"{placeholder!r} is the example's text: write your own" in text
        example = example.replace(placeholder, placeholder.replace("my", "our") + "s")
    assert text.startswith(f": {len(PLACEHOLDERS)} mistakes: ")
    read(tmp_path, example, "trained")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: a\nname: b\n", "line 2, column 1 is not valid YAML: 'name' is given twice"),
        ("method: {recipe: a, recipe: b}\n", "'recipe' is given twice"),
        ("a: &x {b: c}\nmethod:\n  <<: {d: e}\n", "merge keys (<<) are not read"),
        ("a: &x [b]\nc: *x\n", "line 2, column 4 is not valid YAML: aliases (*name) are not"),
        ("a: &a [1]\nb: &b [*a, *a]\n", "aliases (*name) are not read"),
        ("name: !!python/object:os.system x\n", "column 7 is not valid YAML: tags (!name) are not"),
        ("name: !!bool maybe\n", "tags (!name) are not read"),
        ("name: ! a\n", "tags (!name) are not read"),
        ("1: a\n1.0: b\n", "line 1, column 1 is not valid YAML: '1' is not a field name"),
        ("method: {yes: a, true: b}\n", "'yes' is not a field name; field names are strings"),
        ("? [a]\n: b\n", "this is not a field name"),
        ("[" * 30_000, "line 1, column 18 is not valid YAML: nested more than 16 deep"),
        ("- " * 30_000, "nested more than 16 deep"),
        ("{a: " * 15_000, "nested more than 16 deep"),
        (f"parameters: {'1' * 5_000}\n", "is not valid YAML: Exceeds the limit (4300 digits)"),
        (f"parameters: {'1:' * 9_000}1.5\n", "is not valid YAML: a number is too large"),
    ],
)
def test_yaml_is_what_people_write_by_hand(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "about.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(UserError) as raised:
        read_about(path, "policy", "2027-01-02", find_init)
    assert problem in str(raised.value)


def test_a_bomb_of_merge_keys_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "about.yaml"
    lines = ["a0: &a0 {" + ", ".join(f"k{n}: 1" for n in range(40)) + "}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 40)}]}}" for n in range(1, 9)]
    path.write_text("\n".join(lines), "utf-8")
    began = time.process_time()
    with pytest.raises(UserError, match="are not read"):
        read_about(path, "policy", "2027-01-02", find_init)
    assert time.process_time() - began < 1
