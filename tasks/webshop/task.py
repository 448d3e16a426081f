"""The task `webshop`: panels, prompt, episodes and scripted players."""

import random
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path

from jinja2 import Template

from tasks.base import (
    Episode,
    Panel,
    PanelEntry,
    Setting,
    TaskInfo,
    Worst,
)
from tasks.response import format_response
from tasks.text_task import Done, Seen, TextEpisode, TextTask
from tasks.webshop import compat, pages
from tasks.webshop.data.catalogues import BUILTIN, DATA_VARIABLE, is_there, open_catalogue
from tasks.webshop.data.goals import Goal
from tasks.webshop.data.products import Product
from tasks.webshop.expert import Expert
from tasks.webshop.nouns import CONTENT_WORDS, SPACY, Tagger, find_tagger
from tasks.webshop.panel_goals import catalogue_name, goal_of, open_panel
from tasks.webshop.reward import Reward, judge
from tasks.webshop.shopper import Shopper
from tasks.webshop.stream import training_entry
from tasks.webshop.visit import Choice, Page, Place, Visit

SUCCESS_REWARD = 10.0
"""For a purchase of reward 1, as in the field's training; partial credit is in the score."""
PERCENT = 100

SEARCH = "search[your words]"
"""How the list of possible actions names a search."""

_ON, _OFF = "on", "off"
_WORD = re.compile(r"[a-z0-9]+")
_RANDOM_WORDS = 4
"""Words of the task that the random policy searches for."""


class WebShopEpisode(TextEpisode):
    """One visit to the shop.

    Args:
        goal: What is to be bought.
        catalogue: Name of the catalogue.
        max_turns: Turns after which the episode ends.
        history_turns: Past turns that the prompt repeats.
        template: The prompt.
        tagger: Finds nouns.
        as_original: Whether pages, actions and rewards are the original's.
    """

    # As in the field.
    longest_prompt = 13_000

    def __init__(
        self,
        goal: Goal,
        catalogue: str,
        max_turns: int,
        history_turns: int,
        template: Template,
        tagger: Tagger,
        as_original: bool,
    ) -> None:
        super().__init__(max_turns, template, history_turns)
        self.goal = goal
        self._catalogue = open_catalogue(catalogue)
        self._tagger = tagger
        self._as_original = as_original
        self._visit = Visit(self._catalogue, goal)
        self._page: Page | None = None
        self._expert = Expert(goal, self._catalogue)
        self._shopper = Shopper(goal, self._catalogue)
        self._left: Product | None = None

    @property
    def page(self) -> Page:
        """What is seen now."""
        self.check_running()
        assert self._page is not None
        return self._page

    def normalized(self, action: str) -> str:
        """An action as pages know it; the original leaves white space inside as it is."""
        return action.lower() if self._as_original else super().normalized(action)

    def start(self) -> Seen:
        """Enter the shop."""
        self._visit = Visit(self._catalogue, self.goal)
        self._left = None
        return self._look(None)

    def act(self, action: str | None) -> Done:
        """Do what the page offers; else the turn passes."""
        before = self.page
        self._left = self._visit.product
        act = compat.act if self._as_original else pages.act
        admitted = action is not None and act(self._visit, before, action)
        if self._visit.place is not Place.DONE:
            return Done(admitted, self._look(None), score=0.0)
        found = self._judge()
        success = found.value == 1.0
        return Done(
            admitted,
            self._look(found),
            reward=SUCCESS_REWARD if success else 0.0,
            success=success,
            over=True,
            score=PERCENT * found.value,
            info=asdict(found),
        )

    def _judge(self) -> Reward:
        bought = self._visit.looked_at
        return judge(
            self.goal,
            self._catalogue.product(self.goal.asin),
            bought,
            self._visit.chosen,
            self._catalogue.price(bought),
            self._tagger,
            self._as_original,
        )

    def expert_move(self) -> tuple[str, str]:
        """What the expert thinks and does now."""
        return self._expert.move(self._visit, self.page)

    def shopper_move(self) -> tuple[str, str]:
        """What a player thinks and does who knows only what the prompt shows."""
        return self._shopper.move(self._visit, self.page, self._left)

    def careless_move(self) -> tuple[str, str]:
        """The same of one who chooses no options."""
        return self._shopper.careless_move(self._visit, self.page, self._left)

    def _look(self, reward: Reward | None) -> Seen:
        if self._as_original:
            page = compat.page_of(self._visit, None if reward is None else reward.value)
        else:
            page = pages.page_of(self._visit)
        self._page = page
        search = (SEARCH,) if page.searchable else ()
        actions = (*search, *(f"click[{name}]" for name in page.clicks))
        shown = {
            "task": self.goal.instruction,
            "observation": page.shown,
            "actions": _listed(page),
        }
        return Seen(page.observation, actions, shown)


class WebShopTask(TextTask[WebShopEpisode]):
    """Find a product that fits a wish, and buy it."""

    info = TaskInfo(
        name="webshop",
        title="WebShop",
        version="1",
        summary="Find a product that fits a wish, and buy it.",
        history_turns=2,
        format_penalty=0.1,
        score_name="reward",
        score_unit="%",
        category_name="department",
        field_panel="small_1000",
        data_variable=DATA_VARIABLE,
        settings={
            "compat": Setting(
                _OFF, "pages, actions and rewards with all oddities of the original", (_OFF, _ON)
            ),
            "tagger": Setting(
                CONTENT_WORDS,
                f"finds nouns of product names: {CONTENT_WORDS}, or {SPACY} and a pipeline's name",
            ),
        },
    )

    folder = Path(__file__).parent
    episodes = WebShopEpisode

    def panel(self, name: str) -> Panel:
        """Read a panel; of the public data, also check that it is the pinned one."""
        self.settings()
        panel = open_panel(self.info.name, name)
        if self._chosen:
            # What the scripted players see was recorded with the standard settings.
            info = replace(panel.info, trace_sha256=None, random_success=None, expert_success=None)
            return replace(panel, info=info)
        return panel

    def available(self, name: str) -> bool:
        """Whether the panel's files are here."""
        return name in self.panels() and is_there(catalogue_name(name))

    def training_entry(self, index: int, seed: int = 0) -> PanelEntry:
        """A wish for a product of the built-in catalogue that no test asks for."""
        return training_entry(index, seed)

    def identity(self, entry: PanelEntry) -> str:
        """The product that the wish was made from: stricter than the wish.

        Of public products, also which wish it is: a training panel has several of one product.
        """
        data = entry.data
        asin, catalogue = str(data["asin"]), str(data["catalogue"])
        return asin if catalogue == BUILTIN else f"{catalogue} {entry.id}"

    def episode(self, entry: PanelEntry, max_turns: int) -> WebShopEpisode:
        """Enter the shop."""
        settings = self.settings()
        return WebShopEpisode(
            goal_of(entry),
            str(entry.data["catalogue"]),
            max_turns,
            self.info.history_turns,
            self._prompt.template,
            find_tagger(settings["tagger"]),
            settings["compat"] == _ON,
        )

    def settings(self) -> Mapping[str, str]:
        """The settings; the tagger with the version of its model."""
        chosen = dict(super().settings())
        chosen["tagger"] = find_tagger(chosen["tagger"]).name
        return chosen

    def expert_response(self, episode: Episode) -> str:
        """Search for the goal's product, choose its options, buy it."""
        return format_response(*self.own(episode).expert_move())

    def demonstration_response(self, episode: Episode) -> str:
        """Search, choose and buy by what the prompt shows."""
        return format_response(*self.own(episode).shopper_move())

    def careless_response(self, episode: Episode, rng: random.Random) -> str:
        """The next action of a player who buys things as they are."""
        del rng
        return format_response(*self.own(episode).careless_move())

    def random_response(self, episode: Episode, rng: random.Random) -> str:
        """One of the listed clicks; at a search bar, a search for words of the task."""
        own = self.own(episode)
        if own.page.searchable:
            words = _WORD.findall(own.goal.instruction.lower()) or ["anything"]
            drawn = [words[int(rng.random() * len(words))] for _ in range(_RANDOM_WORDS)]
            return format_response("", f"search[{' '.join(drawn)}]")
        clicks = tuple(own.page.clicks)
        return format_response("", f"click[{clicks[int(rng.random() * len(clicks))]}]")

    def worst(self, max_turns: int) -> Worst:
        """Nothing is earned."""
        del max_turns
        return Worst(score=0.0, reward=0.0)

    def describe(self, entry: PanelEntry) -> str:
        """The instruction."""
        return goal_of(entry).instruction

    def packages(self) -> Mapping[str, str]:
        """What compares texts; the tagger's version stands in its setting."""
        return {"rapidfuzz": version("rapidfuzz")}


def _listed(page: Page) -> list[str]:
    """What can be done on a page, for the prompt: the values of an option on one line."""
    lines = [SEARCH] if page.searchable else []
    option = None
    for name, does in page.clicks.items():
        if isinstance(does, Choice) and does.option == option:
            lines[-1] += f", click[{name}]"
            continue
        option = does.option if isinstance(does, Choice) else None
        lines.append(f"click[{name}]" if option is None else f"{option}: click[{name}]")
    return lines


TASK = WebShopTask
