"""The environment: a household with the texts and commands of TextWorld's ALFWorld."""

from dataclasses import dataclass

from tasks.alfworld.engine.game import Game, Operator

NOTHING_HAPPENS = "Nothing happens."


@dataclass(frozen=True, slots=True)
class Shown:
    """What the player sees.

    Attributes:
        text: The answer to the last command, or the opening text.
        admissible: Commands that do something now, sorted.
        won: The goal is reached.
    """

    text: str
    admissible: tuple[str, ...]
    won: bool


class AlfworldEnv:
    """A game in play."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.facts = game.start
        self._operators: dict[str, Operator] = {}

    def reset(self) -> Shown:
        """Start over."""
        self.facts = self.game.start.copy()
        return self._seen(self.game.opening(self.facts))

    def step(self, command: str) -> Shown:
        """Do what a command says; an unknown one does nothing. Spaces around it do not count."""
        operator = self._operators.get(command.strip())
        text = NOTHING_HAPPENS if operator is None else self.game.apply(operator, self.facts)
        return self._seen(text)

    def _seen(self, text: str) -> Shown:
        self._operators = self.game.operators(self.facts)
        return Shown(text, tuple(sorted(self._operators)), self.game.won(self.facts))
