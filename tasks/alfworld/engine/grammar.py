"""The text grammar of the pinned package: parses its `.twl2` file, writes texts and commands.

TextWorld parses the templates again whenever it needs them and evaluates their expressions as
Python; here they are read once, and only what the expressions of this grammar consist of
(attributes of an entity, constant texts, `+` and `or`) is understood.
"""

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tasks.alfworld.engine.facts import Facts

Names = Mapping[str, str]
Binding = Mapping[str, str]
"""Id of the entity that each variable stands for."""

_PART = re.compile(
    r'\s*(?:grammar\s*::\s*"""(?P<shared>.*?)"""\s*;'
    r"|action\s+(?P<action>\w+)\s*\{(?P<body>.*?)\n\})",
    re.DOTALL,
)
_TEMPLATE = re.compile(r'template\s*::\s*"(.*?)"\s*;')
_FEEDBACK = re.compile(r'feedback\s*::\s*"(.*?)"\s*;')
_OWN_RULES = re.compile(r'grammar\s*::\s*"""(.*?)"""\s*;', re.DOTALL)

_TAG = r"#([\w()/!<>\-\s,.]+)#"
_FILLED = rf"\{{(?:{_TAG}|([^|\[\]{{}}\n<>]+?))(?:\s*\|\s*([^;|{{}}\n\[\]#]+))?\}}"
_SYMBOL = re.compile(
    rf'(?P<literal>[^;|"<>\[\]#{{}}]+)|(?P<rule>{_TAG})|(?P<filled>{_FILLED})|\[(?P<listed>{_FILLED})\]'
)
_FILLED_PARTS = re.compile(_FILLED)
_ATOM = re.compile(r"\s*(\w+)\(([^()]*)\)\s*")

_EMPTY, _SEPARATOR, _LAST_SEPARATOR = "list_empty", "list_separator", "list_last_separator"


class GrammarError(ValueError):
    """A text grammar has another form than the pinned package's."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What texts are written of.

    Attributes:
        facts: The state.
        names: What each entity is called.
    """

    facts: Facts
    names: Names


@dataclass(frozen=True, slots=True)
class Query:
    """Atoms over variables that must all hold; different variables stand for different things."""

    atoms: tuple[tuple[str, tuple[str, ...]], ...]

    def matches(self, facts: Facts, binding: Binding) -> Iterator[dict[str, str]]:
        """All bindings that extend the given one, in the order in which texts list them."""
        yield from self._extend(0, facts, dict(binding), set(binding.values()))

    def _extend(
        self, number: int, facts: Facts, binding: dict[str, str], used: set[str]
    ) -> Iterator[dict[str, str]]:
        if number == len(self.atoms):
            yield dict(binding)
            return
        predicate, variables = self.atoms[number]
        free = [name for name in variables if name not in binding]
        for fact in facts.ordered(predicate):
            for name, value in zip(variables, fact, strict=True):
                bound = binding.get(name)
                if bound is None:
                    if value in used:
                        break
                    binding[name] = value
                    used.add(value)
                elif bound != value:
                    break
            else:
                yield from self._extend(number + 1, facts, binding, used)
            for name in free:
                value_or_none = binding.pop(name, None)
                if value_or_none is not None:
                    used.discard(value_or_none)


Writer: TypeAlias = Callable[["Grammar", Scene, Binding], str]
"""Writes a piece of text about the things that its variables stand for."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to write a text, used where its condition matches."""

    condition: Query | None
    write: Writer


class Grammar:
    """The texts and commands of the game.

    Args:
        source: The text of a `.twl2` file.

    Raises:
        GrammarError: It has another form than the pinned package's.
    """

    def __init__(self, source: str) -> None:
        self._rules: dict[str, tuple[Rule, ...]] = {}
        self._commands: dict[str, Writer] = {}
        self._feedback: dict[str, Writer] = {}
        end = 0
        for part in _PART.finditer(source):
            if part.start() != end:
                break
            end = part.end()
            if part["shared"] is not None:
                self._add_rules(part["shared"])
            else:
                self._add_action(part["action"].lower(), part["body"])
        if source[end:].strip():
            raise GrammarError(f"text grammar: {source[end:].strip()[:40]!r} is not understood")

    @property
    def actions(self) -> frozenset[str]:
        """Actions that have a command, in lower case."""
        return frozenset(self._commands)

    def text(self, rule: str, scene: Scene, binding: Binding) -> str:
        """Write what the first rule of a name says whose condition matches.

        Raises:
            GrammarError: There is no such rule, or none applies.
        """
        for way in self._rules.get(rule, ()):
            if way.condition is None or any(
                True for _ in way.condition.matches(scene.facts, binding)
            ):
                return way.write(self, scene, binding)
        raise GrammarError(f"text grammar: no rule for {rule!r} applies")

    def command(self, action: str, scene: Scene, binding: Binding) -> str:
        """The command that stands for an action."""
        return self._commands[action](self, scene, binding)

    def feedback(self, action: str, scene: Scene, binding: Binding) -> str:
        """What is said after an action."""
        return self._feedback[action](self, scene, binding)

    def listed(self, items: Sequence[str], scene: Scene, binding: Binding) -> str:
        """Join items as the grammar says: `a, b, and c`."""
        if not items:
            return self.text(_EMPTY, scene, binding)
        if len(items) == 1:
            return items[0]
        separator = self.text(_SEPARATOR, scene, binding)
        last = self.text(_LAST_SEPARATOR, scene, binding)
        return separator.join(items[:-1]) + last + items[-1]

    def _add_rules(self, source: str) -> None:
        try:
            rules = json.loads(source)
            for name, ways in rules.items():
                self._rules[name] = tuple(
                    Rule(
                        read_query(way["condition"]) if way.get("condition") else None,
                        read_text(way["rhs"]),
                    )
                    for way in ways
                )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise GrammarError(f"text grammar: rules cannot be read ({error})") from error

    def _add_action(self, name: str, body: str) -> None:
        template, feedback = _TEMPLATE.search(body), _FEEDBACK.search(body)
        if template is None or feedback is None:
            raise GrammarError(f"text grammar: action {name} has no template or no feedback")
        self._commands[name] = read_text(template[1])
        self._feedback[name] = read_text(feedback[1])
        own = _OWN_RULES.search(body)
        if own is not None:
            self._add_rules(own[1])


def read_query(source: str) -> Query:
    """Read a condition such as `openable(r:receptacle) & opened(r:receptacle)`.

    Raises:
        GrammarError: It has another form.
    """
    atoms = []
    for part in source.split("&"):
        match = _ATOM.fullmatch(part)
        if match is None:
            raise GrammarError(f"text grammar: condition {source!r} is not understood")
        variables = tuple(item.split(":")[0].strip() for item in match[2].split(","))
        atoms.append((match[1], variables))
    return Query(tuple(atoms))


def read_text(source: str) -> Writer:
    """Read a template: constant text, `#rule#`, `{expression}` and `[{expression | query}]`.

    White space at the start is dropped, and so is everything from the first character on that does
    not fit: TextWorld's parser does the same, and the package's texts have cases of both.

    Raises:
        GrammarError: An expression is not understood.
    """
    writers: list[Writer] = []
    position = len(source) - len(source.lstrip())
    while (match := _SYMBOL.match(source, position)) is not None:
        position = match.end()
        if match["literal"] is not None:
            writers.append(_constant(match["literal"].replace("\\n", "\n")))
        elif match["rule"] is not None:
            writers.append(_reference(match["rule"][1:-1]))
        elif match["filled"] is not None:
            items = _items(match["filled"])
            writers.append(_concatenated(items))
        else:
            writers.append(_list(_items(match["listed"])))
    if len(writers) == 1:
        return writers[0]
    return lambda grammar, scene, binding: "".join(
        [write(grammar, scene, binding) for write in writers]
    )


Items: TypeAlias = Callable[["Grammar", Scene, Binding], list[str]]


def _items(source: str) -> Items:
    """`{expression}` gives one item, `{expression | query}` one for each match."""
    match = _FILLED_PARTS.fullmatch(source)
    if match is None:
        raise GrammarError(f"text grammar: {source!r} is not understood")
    rule, expression, given = match.groups()
    write = _reference(rule) if rule is not None else _expression(expression.strip())
    if given is None:
        return lambda grammar, scene, binding: [write(grammar, scene, binding)]
    query = read_query(given)
    return lambda grammar, scene, binding: [
        write(grammar, scene, match) for match in query.matches(scene.facts, binding)
    ]


def _concatenated(items: Items) -> Writer:
    return lambda grammar, scene, binding: "".join(items(grammar, scene, binding))


def _list(items: Items) -> Writer:
    return lambda grammar, scene, binding: grammar.listed(
        items(grammar, scene, binding), scene, binding
    )


def _constant(text: str) -> Writer:
    return lambda grammar, scene, binding: text


def _reference(rule: str) -> Writer:
    return lambda grammar, scene, binding: grammar.text(rule, scene, binding)


def _expression(source: str) -> Writer:
    """Compile `o.indefinite + ' ' + o.name`; a variable alone stands for its name."""
    try:
        return _compiled(ast.parse(source, mode="eval").body)
    except (SyntaxError, GrammarError) as error:
        raise GrammarError(f"text grammar: expression {source!r} is not understood") from error


def _compiled(node: ast.expr) -> Writer:
    match node:
        case ast.Constant(value=str(text)):
            return _constant(text)
        case ast.Name(id=variable) | ast.Attribute(value=ast.Name(id=variable), attr="name"):
            return lambda grammar, scene, binding: scene.names[binding[variable]]
        case ast.Attribute(value=ast.Name(id=variable), attr="id"):
            return lambda grammar, scene, binding: binding[variable]
        case ast.Attribute(value=ast.Name(), attr="indefinite"):
            return _constant("a")
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = _compiled(left), _compiled(right)
            return lambda grammar, scene, binding: (
                first(grammar, scene, binding) + second(grammar, scene, binding)
            )
        case ast.BoolOp(op=ast.Or(), values=[left, right]):
            first, second = _compiled(left), _compiled(right)
            return lambda grammar, scene, binding: (
                first(grammar, scene, binding) or second(grammar, scene, binding)
            )
        case _:
            raise GrammarError(ast.dump(node))
