"""A problem prepared for play: valid actions, their effects, and texts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from tasks.alfworld.engine import package
from tasks.alfworld.engine.facts import Arguments, Facts
from tasks.alfworld.engine.grammar import Grammar, Scene
from tasks.alfworld.engine.join import Join
from tasks.alfworld.engine.logic import (
    Literal,
    Schema,
    alternatives_of,
    changing_predicates,
    schemas_of,
)
from tasks.alfworld.engine.names import display_names
from tasks.alfworld.engine.pddl import Domain, PddlError, Problem, read_domain, read_problem

_TASK_PLACE = "UNKNOWN GOAL"
_AGENT_PLACE, _RECEPTACLE_PLACE = "atlocation", "receptacleatlocation"


@dataclass(frozen=True, slots=True)
class Operator:
    """An action with its arguments."""

    schema: Schema
    arguments: Arguments

    @property
    def binding(self) -> Mapping[str, str]:
        """Arguments by parameter, without question marks."""
        names = (name[1:] for name in self.schema.parameters)
        return dict(zip(names, self.arguments, strict=True))


@dataclass(frozen=True, slots=True)
class Rules:
    """What all games share: the pinned package's domain and text grammar."""

    domain: Domain
    grammar: Grammar
    schemas: tuple[Schema, ...]
    changing: frozenset[str]


@cache
def rules() -> Rules:
    """Read the rules from the installed package, once a process.

    Raises:
        UserError: The package is missing or another version.
    """
    domain = read_domain(package.domain())
    grammar = Grammar(package.grammar())
    schemas = schemas_of(domain)
    return Rules(domain, grammar, schemas, changing_predicates(schemas))


class Game:
    """A problem, ready to be played any number of times; it does not change.

    Args:
        problem: The PDDL problem.
        task: What is asked for, without a full stop at the end.

    Raises:
        PddlError: The domain rejects the problem.
    """

    def __init__(self, problem: str, task: str) -> None:
        self._rules = rules()
        domain = self._rules.domain
        self.problem = read_problem(problem, domain)
        self.task = task
        _check_places(self.problem)
        self.start = Facts(self.problem.facts, self._rules.changing)
        named = {name for facts in self.problem.facts.values() for fact in facts for name in fact}
        self.names = display_names(named)
        self._joins = [
            (
                schema,
                [
                    Join(form, schema.parameters, self.problem, domain)
                    for form in schema.alternatives
                ],
            )
            for schema in self._rules.schemas
        ]
        self._goal = [
            Join(form, (), self.problem, domain)
            for form in alternatives_of(self.problem.goal, {}, domain)
        ]
        self._commands: dict[tuple[str, Arguments], str | None] = {}

    def opening(self, facts: Facts) -> str:
        """The text before the first command."""
        text = self._rules.grammar.text("intro", Scene(facts, self.names), {})
        return text.replace(_TASK_PLACE, self.task)

    def operators(self, facts: Facts) -> dict[str, Operator]:
        """What can be done now, by command."""
        found: dict[str, Operator] = {}
        for schema, joins in self._joins:
            for join in joins:
                for arguments in join.bindings(facts):
                    command = self._command(schema, arguments)
                    if command is not None and command not in found:
                        found[command] = Operator(schema, arguments)
        return found

    def _command(self, schema: Schema, arguments: Arguments) -> str | None:
        """What one types for an action; None for one that would change nothing."""
        key = (schema.name, arguments)
        if key not in self._commands:
            operator = Operator(schema, arguments)
            self._commands[key] = (
                None
                if schema.can_be_idle and _idle(operator)
                else self._rules.grammar.command(
                    schema.name, Scene(self.start, self.names), operator.binding
                )
            )
        return self._commands[key]

    def apply(self, operator: Operator, facts: Facts) -> str:
        """Do it, and say what was seen of it."""
        values = dict(zip(operator.schema.parameters, operator.arguments, strict=True))
        added: list[tuple[str, Arguments]] = []
        removed: list[tuple[str, Arguments]] = []
        for effect in operator.schema.effects:
            if all(_holds(literal, values, facts) for literal in effect.condition):
                (added if effect.literal.positive else removed).append(
                    _ground(effect.literal, values)
                )
        for fact in removed:
            if fact not in added:
                facts.remove(*fact)
        for fact in added:
            facts.add(*fact)
        return self._rules.grammar.feedback(
            operator.schema.name, Scene(facts, self.names), operator.binding
        )

    def won(self, facts: Facts) -> bool:
        """Whether the goal is reached."""
        return any(join.holds(facts) for join in self._goal)


def _check_places(problem: Problem) -> None:
    """Refuse what would let one command stand for several operators.

    TextWorld then does what Fast Downward happens to list first. In every game of the data set that
    could be looked at there is one agent at one place, and every receptacle has one.
    """
    if len(problem.facts[_AGENT_PLACE]) != 1:
        raise PddlError("there must be one agent, at one location")
    placed = [receptacle for receptacle, _ in problem.facts[_RECEPTACLE_PLACE]]
    if len(placed) != len(set(placed)):
        raise PddlError("a receptacle is at several locations")


def _idle(operator: Operator) -> bool:
    """Whether an operator, where it applies, changes nothing: it asks for all that it makes true.

    Fast Downward leaves such operators out, so one cannot go to where one is.
    """
    schema = operator.schema
    values = dict(zip(schema.parameters, operator.arguments, strict=True))
    wanted = {
        _ground(literal, values)
        for form in schema.alternatives
        for literal in form.literals
        if literal.positive
    }
    made = {_ground(effect.literal, values) for effect in schema.effects if effect.literal.positive}
    unmade = {
        _ground(effect.literal, values) for effect in schema.effects if not effect.literal.positive
    }
    return made <= wanted and unmade <= made


def _ground(literal: Literal, values: Mapping[str, str]) -> tuple[str, Arguments]:
    atom = literal.atom
    return atom.predicate, tuple(values.get(name, name) for name in atom.arguments)


def _holds(literal: Literal, values: Mapping[str, str], facts: Facts) -> bool:
    return facts.holds(*_ground(literal, values)) is literal.positive
