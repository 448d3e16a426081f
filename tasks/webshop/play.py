"""A visit to the shop in play: observations, effects of actions, and the scripted players."""

import random
import re
from dataclasses import asdict

from tasks.text_task import Done, Seen, World
from tasks.webshop import compat, pages
from tasks.webshop.data.catalogues import open_catalogue
from tasks.webshop.data.goals import Goal
from tasks.webshop.data.products import Product
from tasks.webshop.expert import Expert
from tasks.webshop.nouns import Tagger
from tasks.webshop.reward import Reward, judge
from tasks.webshop.shopper import Shopper
from tasks.webshop.visit import OptionChoice, Page, Place, Visit

SUCCESS_REWARD = 10.0
"""For a purchase of reward 1, as in the field's training; partial credit is in the score."""
PERCENT = 100

SEARCH = "search[your words]"
"""How the list of possible actions names a search."""

_WORD = re.compile(r"[a-z0-9]+")
_RANDOM_WORDS = 4
"""Words of the task that the random policy searches for."""


class Shopping(World):
    """One visit to the shop.

    Args:
        goal: What is to be bought.
        catalogue: Name of the catalogue.
        tagger: Finds nouns.
        as_original: Whether pages, actions and rewards are the original's.
    """

    def __init__(self, goal: Goal, catalogue: str, tagger: Tagger, as_original: bool) -> None:
        self._goal = goal
        self._catalogue = open_catalogue(catalogue)
        self._tagger = tagger
        self._as_original = as_original
        self._visit = Visit(self._catalogue, goal)
        self._expert = Expert(goal, self._catalogue)
        self._shopper = Shopper(goal, self._catalogue)
        self._left: Product | None = None
        self._page = self._open_page(None)

    def normalized(self, action: str) -> str:
        """An action as pages know it; the original leaves white space inside as it is."""
        return action.lower() if self._as_original else super().normalized(action)

    def look(self) -> Seen:
        """The page and what can be done on it."""
        page = self._page
        search = (SEARCH,) if page.searchable else ()
        actions = (*search, *(f"click[{name}]" for name in page.clicks))
        shown = {
            "task": self._goal.instruction,
            "observation": page.shown,
            "actions": _listed(page),
        }
        return Seen(page.observation, actions, shown)

    def act(self, action: str | None) -> Done:
        """Do what the page offers; else the turn passes."""
        self._left = self._visit.product
        act = compat.act if self._as_original else pages.act
        admitted = action is not None and act(self._visit, self._page, action)
        if self._visit.place is not Place.DONE:
            self._page = self._open_page(None)
            return Done(admitted, score=0.0)
        found = self._judge()
        self._page = self._open_page(found)
        success = found.value == 1.0
        return Done(
            admitted,
            reward=SUCCESS_REWARD if success else 0.0,
            success=success,
            over=True,
            score=PERCENT * found.value,
            info=asdict(found),
        )

    def expert_move(self) -> tuple[str, str]:
        """What the expert thinks and does now."""
        return self._expert.move(self._visit, self._page)

    def shopper_move(self) -> tuple[str, str]:
        """What a player thinks and does who knows only what the prompt shows."""
        return self._shopper.move(self._visit, self._page, self._left)

    def careless_move(self) -> tuple[str, str]:
        """The same of one who chooses no options."""
        return self._shopper.careless_move(self._visit, self._page, self._left)

    def random_action(self, rng: random.Random) -> str:
        """One of the listed clicks; at a search bar, a search for words of the task."""
        if self._page.searchable:
            words = _WORD.findall(self._goal.instruction.lower()) or ["anything"]
            drawn = [words[int(rng.random() * len(words))] for _ in range(_RANDOM_WORDS)]
            return f"search[{' '.join(drawn)}]"
        clicks = tuple(self._page.clicks)
        return f"click[{clicks[int(rng.random() * len(clicks))]}]"

    def _judge(self) -> Reward:
        bought = self._visit.looked_at
        return judge(
            self._goal,
            self._catalogue.product(self._goal.asin),
            bought,
            self._visit.chosen,
            self._catalogue.price(bought),
            self._tagger,
            self._as_original,
        )

    def _open_page(self, reward: Reward | None) -> Page:
        if self._as_original:
            return compat.page_of(self._visit, None if reward is None else reward.value)
        return pages.page_of(self._visit)


def _listed(page: Page) -> list[str]:
    """What can be done on a page, for the prompt: the values of an option on one line."""
    lines = [SEARCH] if page.searchable else []
    option = None
    for name, does in page.clicks.items():
        if isinstance(does, OptionChoice) and does.option == option:
            lines[-1] += f", click[{name}]"
            continue
        option = does.option if isinstance(does, OptionChoice) else None
        lines.append(f"click[{name}]" if option is None else f"{option}: click[{name}]")
    return lines
