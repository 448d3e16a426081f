"""YAML as people write it by hand: no aliases, merge keys, tags, deep nesting, duplicate keys.

A few lines of aliases or merge keys can expand to gigabytes, and the safe loader silently takes the
last of several duplicate keys.
"""

from collections.abc import Hashable
from typing import Any, Final

import yaml

MAX_DEPTH: Final = 16
"""Maximum nesting depth of mappings and lists."""


class PlainLoader(yaml.SafeLoader):
    """The safe loader without features that a hand-written form never needs."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse aliases, tags and deep nesting before anything is constructed.

        Raises:
            yaml.MarkedYAMLError: There is one.
        """
        event = self.peek_event()  # type: ignore[no-untyped-call]
        problem = None
        if isinstance(event, yaml.AliasEvent):
            problem = "aliases (*name) are not read"
        elif event.tag is not None:
            problem = "tags (!name) are not read"
        elif self.depth > MAX_DEPTH:
            problem = f"nested more than {MAX_DEPTH} deep"
        if problem is not None:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

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
        """Refuse duplicate keys and keys that are not text, as `1`, `1.0` and `yes` are equal.

        Raises:
            yaml.MarkedYAMLError: There is one.
        """
        self.flatten_mapping(node)
        seen = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            problem = None
            if not isinstance(name, str):
                shown = repr(key.value) if isinstance(key, yaml.ScalarNode) else "this"
                problem = f"{shown} is not a field name; field names are strings"
            elif name in seen:
                problem = f"{name!r} is given twice"
            if problem is not None:
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep=deep)


def read_plain_yaml(text: str) -> Any:
    """Parse a text.

    Raises:
        yaml.YAMLError: It is not valid YAML, or uses a refused feature.
        ValueError: It contains an impossible number or date.
    """
    try:
        return yaml.load(text, Loader=PlainLoader)  # noqa: S506 - it is a safe loader
    except OverflowError as error:
        raise ValueError("a number is too large") from error
