"""The training side of a task: the stream of entries, and the scripted players to clone."""

import random
from abc import ABC, abstractmethod

from tasks.episode import Episode
from tasks.panels import PanelEntry


class Trainable(ABC):
    """The half of a task that training, cloning and `validate` use."""

    @abstractmethod
    def training_entry(self, index: int, seed: int = 0) -> PanelEntry:
        """Entry number `index` of the training stream `seed`.

        The stream is endless, the same on every machine, open at any index, and holds no episode
        of any panel.
        """

    @abstractmethod
    def identity(self, entry: PanelEntry) -> str:
        """What makes two entries the same problem, symmetries included.

        Keeps training and panels apart.
        """

    @abstractmethod
    def expert_response(self, episode: Episode) -> str:
        """The scripted expert's response to the episode's current view."""

    @abstractmethod
    def random_response(self, episode: Episode, rng: random.Random) -> str:
        """A well-formed response with an action drawn from those that the world admits."""

    def demonstration_response(self, episode: Episode) -> str:
        """What the episodes that inits are cloned from answer to the current view: the expert.

        Another player where the expert knows more than the prompt shows: a clone of that one would
        learn to guess.
        """
        return self.expert_response(episode)

    def mistaken_response(self, episode: Episode, rng: random.Random) -> str:
        """What a clone may do wrong here; any admissible action where nothing better is known.

        Demonstrations with noise do it now and then, so that a clone has seen how to go on.
        """
        return self.random_response(episode, rng)

    def careless_response(self, episode: Episode, rng: random.Random) -> str:
        """What a careless player answers to the current view; what may be done wrong by default.

        Demonstrations with mistakes show it as what is to be done: a clone has both habits.
        """
        return self.mistaken_response(episode, rng)
