"""YAML as people write it by hand: no aliases, no merge keys, no key given twice, no tags.

A few lines of aliases or merge keys can stand for gigabytes, and of a key that is given twice the
safe loader silently takes the last.
"""

from collections.abc import Hashable
from typing import Any

import yaml


class PlainLoader(yaml.SafeLoader):
    """The safe loader without what a form that people fill in never needs."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse aliases before anything is made of them.

        Raises:
            yaml.MarkedYAMLError: There is one.
        """
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not read", problem_mark=mark)
        return super().compose_node(parent, index)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Refuse merge keys.

        Raises:
            yaml.MarkedYAMLError: There is one.
        """
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                problem = "merge keys (<<) are not read"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Refuse a key that is given twice.

        Raises:
            yaml.MarkedYAMLError: There is one.
        """
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                name = (key.tag, key.value)
                if name in seen:
                    problem = f"{key.value!r} is given twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen.add(name)
        return super().construct_mapping(node, deep=deep)


def read_plain_yaml(text: str) -> Any:
    """The content of a text.

    Raises:
        yaml.YAMLError: It is not valid YAML, or uses what is refused here.
        ValueError: A number or date in it cannot be one.
        RecursionError: It is nested too deeply.
    """
    return yaml.load(text, Loader=PlainLoader)  # noqa: S506 - it is a safe loader
