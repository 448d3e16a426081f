"""The task `alfworld`: panels, training households and scripted players."""

import random
from collections.abc import Mapping
from pathlib import Path

from tasks.alfworld.engine import package
from tasks.alfworld.games import VARIABLE, RealGame, all_there, check_games, is_real
from tasks.alfworld.household import Household, household_key
from tasks.alfworld.play import GameInPlay, game_of
from tasks.alfworld.stream import training_household
from tasks.base import TaskInfo, Worst
from tasks.episode import Episode
from tasks.panels import BUILTIN, Panel, PanelEntry
from tasks.presentation import Presentation
from tasks.response import format_response
from tasks.text_task import TextTask


class AlfworldTask(TextTask[GameInPlay]):
    """Do a household chore by text commands."""

    info = TaskInfo(
        name="alfworld",
        version="1",
        presentation=Presentation(
            title="ALFWorld",
            summary="Do a household chore by text commands.",
            category_name="task type",
        ),
        history_turns=2,
        field_panel="valid_seen",
        worker_processes=True,
        data_variable=VARIABLE,
    )
    folder = Path(__file__).parent
    longest_action = 80
    no_action = "no command"

    def world(self, entry: PanelEntry) -> GameInPlay:
        """A game as it starts."""
        return GameInPlay(entry)

    def panel(self, name: str) -> Panel:
        """Read a panel; for the field's, also check that all its games are there."""
        panel = super().panel(name)
        package.check_versions()
        if name != BUILTIN:
            check_games(name, tuple(RealGame.of(entry) for entry in panel.entries))
        return panel

    def available(self, name: str) -> bool:
        """Whether the panel can be played here, as far as a look at the folder tells."""
        if name not in self.panels():
            return False
        entries = super().panel(name).entries
        return name == BUILTIN or all_there(tuple(RealGame.of(entry) for entry in entries))

    def training_entry(self, index: int, seed: int = 0) -> PanelEntry:
        """A generated household that is in no panel."""
        household = training_household(index, seed)
        return PanelEntry(f"train-{seed}-{index}", household.task_type, household.to_data())

    def identity(self, entry: PanelEntry) -> str:
        """What stands and lies where and what is asked, however things are numbered."""
        if is_real(entry):
            return RealGame.of(entry).sha256
        return household_key(Household.from_data(entry.data))

    def expert(self, world: GameInPlay) -> tuple[str, str]:
        """The next command of a solution; the expert knows where everything is."""
        return world.expert_move()

    def demonstration_response(self, episode: Episode) -> str:
        """The next command of a search that uses only what the prompt shows."""
        return format_response(*self.in_play(episode).world.searcher_move())

    def mistaken_response(self, episode: Episode, rng: random.Random) -> str:
        """A listed command, or the use of a thing that is not there."""
        command = self.in_play(episode).world.mistake(rng)
        if command is None:
            return self.random_response(episode, rng)
        return format_response("", command)

    def careless_response(self, episode: Episode, rng: random.Random) -> str:
        """The next command of a player who walks past everything."""
        del rng
        return format_response(*self.in_play(episode).world.stroll_move())

    def worst(self, max_turns: int) -> Worst:
        """Nothing is earned."""
        del max_turns
        return Worst(score=0.0, reward=0.0)

    def describe(self, entry: PanelEntry) -> str:
        """The task's wording."""
        return game_of(entry).task

    def expected_turns(self, entry: PanelEntry) -> float:
        """The kept walkthrough's length; of real games, nothing is known."""
        return float(len(entry.data.get("walkthrough", ())))

    def packages(self) -> Mapping[str, str]:
        """The package whose domain, grammar and tables are the world's rules."""
        return package.check_versions()


TASK = AlfworldTask
