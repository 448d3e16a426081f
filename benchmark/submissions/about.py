"""`about.yaml`: what authors write about a submission before its folder is created."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import yaml
from pydantic import ValidationError

from benchmark.models import ModelIdentity
from benchmark.submissions.format.faults import Fault, faults_of
from benchmark.submissions.format.plain_yaml import read_plain_yaml
from benchmark.submissions.format.schema import (
    ABOUT_WEIGHTS,
    SCHEMA_VERSION,
    Declaration,
    wrong_for_kind,
)
from tasks.errors import UserError, os_error_as
from tasks.strict import not_yaml
from tasks.texts import on_one_line

MAX_ABOUT: Final = 2**16
"""Maximum size of the file in bytes."""
FILLED_IN: Final = ("schema_version", "date", "checkpoints", "files", "method.kind")
"""Fields that the command fills in."""
WRITTEN: Final = frozenset(Declaration.model_fields).difference(FILLED_IN)
"""Fields that authors write."""
EXAMPLES: Final[Mapping[str, str]] = {
    "name": "name: GRPO with a slow start",
    "authors": "authors: [A. Name]",
    "contact": "contact: name@lab.edu",
    "method": "method: {recipe: grpo, description: What is done.}",
    "method.recipe": "recipe: grpo",
    "method.description": "description: What is done.",
    "method.code": "code: https://github.com/OWNER/NAME",
    "method.paper": "paper: https://arxiv.org/abs/NUMBER",
    "base_model": "base_model: tiny-sokoban",
    "parameters": "parameters: 442272",
    "init": "init: tiny-sokoban",
    "training_data": "training_data: {statement: Levels., training_streams: [sokoban], "
    "other: false, panel_episodes: false}",
    "training_data.statement": "statement: Levels of the training stream.",
    "training_data.training_streams": "training_streams: [sokoban]",
    "training_data.other": "other: false",
    "training_data.panel_episodes": "panel_episodes: false",
    "weights": "weights: https://huggingface.co/OWNER/NAME",
}

_NO_DOMAIN: Final = re.compile(r"[^@/\s]+@[^@\s.]*")
"""An e-mail address whose domain has no dot."""

Kind = Literal["policy", "init", "trained"]


def read_about(
    path: Path, kind: Kind, day: str, find_init: Callable[[str], ModelIdentity]
) -> dict[str, Any]:
    """Read the file and fill in the fields that authors may omit.

    Args:
        path: The file.
        kind: Kind of the method, according to the runs.
        day: Day of the submission, ISO 8601.
        find_init: Looks up an init by its name.

    Returns:
        The fields of `Declaration`.

    Raises:
        UserError: It cannot be read, or is invalid; the message lists all faults.
    """
    written = _yaml(path)
    faults = []
    method = written.get("method")
    for name in FILLED_IN:
        head, _, last = name.rpartition(".")
        place = method if head else written
        if isinstance(place, dict) and last in place:
            faults.append(Fault(name, "remove it; the command fills it in"))
    about = {**dict.fromkeys(ABOUT_WEIGHTS), **written}
    if isinstance(about["init"], str) and kind == "trained":
        try:
            about["init"] = find_init(about["init"]).model_dump(mode="json")
        except UserError as error:
            faults.append(Fault("init", str(error)))
            about["init"] = None
    if problem := wrong_for_kind(kind, {n for n in ABOUT_WEIGHTS if written.get(n) is not None}):
        faults.append(Fault("", problem))
    if isinstance(method, dict):
        about["method"] = {"code": None, "paper": None, **method, "kind": kind}
    if _NO_DOMAIN.fullmatch(str(written.get("contact"))):
        faults.append(Fault("contact", "is not a whole e-mail address", of_shape=True))
    about |= {"schema_version": SCHEMA_VERSION, "date": day}
    for name in ("checkpoints", "files"):
        about.pop(name, None)
    try:
        Declaration.model_validate(about)
    except ValidationError as error:
        # The fields that a kind of method needs are checked above; unwanted ones are not validated.
        unwanted = ABOUT_WEIGHTS if kind == "policy" else ("init",) if kind == "init" else ()
        found = faults_of(error, Declaration, FILLED_IN)
        faults += [f for f in found if f.field and f.field.partition(".")[0] not in unwanted]
    texts = list(dict.fromkeys(_with_example(fault) for fault in faults))
    if len(texts) > 1:
        listed = "; ".join(f"({number}) {text}" for number, text in enumerate(texts, 1))
        raise UserError(f"{path}: {len(texts)} mistakes: {listed}")
    if texts:
        raise UserError(f"{path}: {texts[0]}")
    return about


def _yaml(path: Path) -> dict[str, Any]:
    """Parse the file.

    Raises:
        UserError: It cannot be read, is too long, or is not a YAML mapping.
    """
    with os_error_as(f"{path} cannot be read"), path.open("rb") as stream:
        content = stream.read(MAX_ABOUT + 1)
    if len(content) > MAX_ABOUT:
        raise UserError(f"{path} is longer than {MAX_ABOUT:,} bytes; shorten it")
    try:
        about = read_plain_yaml(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not valid YAML: it is not UTF-8; save it as UTF-8") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{not_yaml(path, error)}; quote texts with special characters") from error
    if not isinstance(about, dict):
        raise UserError(f"{path} must be lines of the form `name: ...` (see submissions/README.md)")
    return about


def _with_example(fault: Fault) -> str:
    """A fault on one line, with an example if the value has the wrong form."""
    example = EXAMPLES.get(fault.field) if fault.of_shape else None
    return on_one_line(fault.text) + (f", such as `{example}`" if example else "")
