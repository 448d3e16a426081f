"""The task `webshop`: panels, prompt, episodes and scripted players."""

import random
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path

from jinja2 import Template

from tasks.base import (
    Episode,
    Message,
    Outcome,
    Panel,
    PanelEntry,
    PanelInfo,
    Setting,
    Step,
    Task,
    TaskInfo,
    View,
    Worst,
)
from tasks.panels import read_index
from tasks.prompts import read_prompt
from tasks.response import CONTRACT, format_response, normalize_action, parse_response
from tasks.webshop import compat, pages
from tasks.webshop.data.catalogues import BUILTIN, DATA_VARIABLE, is_there, open_catalogue
from tasks.webshop.data.goals import Goal
from tasks.webshop.data.products import Product
from tasks.webshop.expert import Expert
from tasks.webshop.nouns import CONTENT_WORDS, SPACY, Tagger, find_tagger
from tasks.webshop.panel_goals import PANELS, catalogue_name, goal_of, open_panel
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
_LONGEST_SHOWN = 200
"""Characters of an action that the history repeats."""
_LONGEST_PROMPT = 13_000
"""Characters; a longer prompt is shown without the past turns, as in the field."""
_WORD = re.compile(r"[a-z0-9]+")
_RANDOM_WORDS = 4
"""Words of the task that the random policy searches for."""


class WebShopEpisode(Episode):
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
        self.goal = goal
        self._catalogue = open_catalogue(catalogue)
        self._max_turns = max_turns
        self._template = template
        self._tagger = tagger
        self._as_original = as_original
        self._history: deque[dict[str, str | int]] = deque(maxlen=history_turns)
        self._turn = 0
        self._visit = Visit(self._catalogue, goal)
        self._page: Page | None = None
        self._expert = Expert(goal, self._catalogue)
        self._shopper = Shopper(goal, self._catalogue)
        self._left: Product | None = None

    @property
    def page(self) -> Page:
        """What is seen now."""
        if self._page is None or not self._turn:
            raise RuntimeError("the episode is not running: reset it first")
        return self._page

    def reset(self) -> View:
        """Enter the shop."""
        self._visit = Visit(self._catalogue, self.goal)
        self._history.clear()
        self._turn = 1
        self._left = None
        return self._look()

    def step(self, response: str) -> Step:
        """Do what the response says; what the page does not offer lets the turn pass."""
        before = self.page
        self._left = self._visit.product
        parsed = parse_response(response)
        action = None if parsed.action is None else self._normalized(parsed.action)
        act = compat.act if self._as_original else pages.act
        done = action is not None and act(self._visit, before, action)
        self._history.append(
            {"turn": self._turn, "observation": before.shown, "action": _shown(action)}
        )
        reward = self._judge() if self._visit.place is Place.DONE else None
        ended = reward is not None or self._turn == self._max_turns
        view = self._last_look(reward) if ended else None
        self._turn = 0 if ended else self._turn + 1
        value = reward.value if reward is not None else 0.0
        success = value == 1.0
        return Step(
            action=action if done else None,
            format_ok=parsed.format_ok,
            action_ok=done,
            reward=SUCCESS_REWARD if success else 0.0,
            view=self._look() if view is None else view,
            outcome=Outcome(success, PERCENT * value) if ended else None,
            info={} if reward is None else asdict(reward),
        )

    def _normalized(self, action: str) -> str:
        """An action as pages know it; the original leaves white space inside as it is."""
        return action.lower() if self._as_original else normalize_action(action)

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

    def _look(self) -> View:
        page = self._see(None)
        self._page = page
        text = self._render(page, self._history)
        if len(text) > _LONGEST_PROMPT:
            text = self._render(page, ())
        search = (SEARCH,) if page.searchable else ()
        actions = (*search, *(f"click[{name}]" for name in page.clicks))
        return View((Message(role="user", content=text),), page.observation, actions)

    def _last_look(self, reward: Reward | None) -> View:
        return View((), self._see(reward).observation)

    def _see(self, reward: Reward | None) -> Page:
        if self._as_original:
            return compat.page_of(self._visit, None if reward is None else reward.value)
        return pages.page_of(self._visit)

    def _render(self, page: Page, history: "deque[dict[str, str | int]] | tuple[()]") -> str:
        return self._template.render(
            task=self.goal.instruction,
            turn=self._turn,
            max_turns=self._max_turns,
            history=history,
            observation=page.shown,
            actions=_listed(page),
        )


class WebShopTask(Task):
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

    def __init__(self) -> None:
        self._prompt = read_prompt(Path(__file__).parent)

    def panels(self) -> Mapping[str, PanelInfo]:
        """`builtin`, and of the public data `small_1000` and `full`, each with a `_train`."""
        return read_index(PANELS)

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
        return format_response(*self._own(episode).expert_move())

    def demonstration_response(self, episode: Episode) -> str:
        """Search, choose and buy by what the prompt shows."""
        return format_response(*self._own(episode).shopper_move())

    def careless_response(self, episode: Episode, rng: random.Random) -> str:
        """The next action of a player who buys things as they are."""
        del rng
        return format_response(*self._own(episode).careless_move())

    def random_response(self, episode: Episode, rng: random.Random) -> str:
        """One of the listed clicks; at a search bar, a search for words of the task."""
        own = self._own(episode)
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

    def prompt_template(self) -> str:
        """The text of `prompt.md`."""
        return self._prompt.text

    def contract(self) -> str:
        """The think-action contract."""
        return CONTRACT

    def packages(self) -> Mapping[str, str]:
        """What compares texts; the tagger's version stands in its setting."""
        return {"rapidfuzz": version("rapidfuzz")}

    @staticmethod
    def _own(episode: Episode) -> WebShopEpisode:
        if not isinstance(episode, WebShopEpisode):
            raise TypeError(f"not a WebShop episode: {episode!r}")
        return episode


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


def _shown(action: str | None) -> str:
    """An action for the history: a model may have written anything."""
    if not action:
        return "no action"
    return action if len(action) <= _LONGEST_SHOWN else action[: _LONGEST_SHOWN - 3] + "..."


TASK = WebShopTask
