"""The unmodified engine: TextWorld's PDDL environment with alfworld's object names."""

import os
from copy import deepcopy
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from tasks.alfworld.engine.package import domain, grammar


@cache
def _modules() -> tuple[Any, Any, Any]:
    """Import them with another data folder: alfworld's import creates it and sets the variable."""
    before = os.environ.get("ALFWORLD_DATA")
    os.environ["ALFWORLD_DATA"] = mkdtemp(prefix="alfworld-import-")
    try:
        textworld = import_module("textworld")
        pddl_env = import_module("textworld.envs.pddl").PddlEnv
        environment = import_module("alfworld.agents.environment.alfred_tw_env")
    finally:
        Path(os.environ.pop("ALFWORLD_DATA")).rmdir()
        if before is not None:
            os.environ["ALFWORLD_DATA"] = before
    return textworld, pddl_env, environment.AlfredDemangler


def keep_parses(patch: pytest.MonkeyPatch) -> None:
    """Make TextWorld parse each text only once.

    It parses the same rules and conditions at every step, which takes most of its time. Callers get
    copies of rules, which they modify; conditions are only read.
    """
    _modules()
    textgen = import_module("textworld.envs.pddl.textgen")
    rules, conditions = cache(textgen._parse_and_convert), textgen.Rule.parse_conjunctive_query
    patch.setattr(textgen, "_parse_and_convert", lambda *a, **k: deepcopy(rules(*a, **k)))
    patch.setattr(textgen.Rule, "parse_conjunctive_query", cache(conditions))


def stock_engine(problem: str, task_text: str) -> Any:
    """An engine with one game loaded, in alfworld's setup for evaluation."""
    textworld, pddl_env, demangler = _modules()
    infos = textworld.EnvInfos(won=True, admissible_commands=True)
    engine = demangler(pddl_env(infos), shuffle=False)
    engine.load(
        {
            "pddl_domain": domain(),
            "grammar": grammar().replace("UNKNOWN GOAL", task_text),
            "pddl_problem": problem,
            "solvable": True,
        }
    )
    return engine
