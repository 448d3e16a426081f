"""The task `webshop`: panels, settings and scripted players."""

import random
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from tasks.base import Setting, TaskInfo, Worst
from tasks.episode import Episode
from tasks.panels import Panel, PanelEntry
from tasks.presentation import Presentation
from tasks.response import format_response
from tasks.text_task import TextTask
from tasks.webshop.data.catalogues import BUILTIN, DATA_VARIABLE, is_there
from tasks.webshop.nouns import CONTENT_WORDS, SPACY, find_tagger
from tasks.webshop.panel_goals import catalogue_name, goal_of, open_panel
from tasks.webshop.play import Shopping
from tasks.webshop.stream import training_entry

_ON, _OFF = "on", "off"


class WebShopTask(TextTask[Shopping]):
    """Find a product that fits a wish, and buy it."""

    info = TaskInfo(
        name="webshop",
        version="1",
        presentation=Presentation(
            title="WebShop",
            summary="Find a product that fits a wish, and buy it.",
            score_unit="%",
            category_name="department",
        ),
        history_turns=2,
        field_panel="small_1000",
        data_variable=DATA_VARIABLE,
        settings={
            "compat": Setting(
                _OFF, "pages, actions and rewards with all quirks of the original", (_OFF, _ON)
            ),
            "tagger": Setting(
                CONTENT_WORDS,
                f"finds nouns of product names: {CONTENT_WORDS}, or {SPACY} and a pipeline's name",
            ),
        },
    )
    folder = Path(__file__).parent
    longest_prompt = 13_000  # as in the field

    def world(self, entry: PanelEntry) -> Shopping:
        """Enter the shop."""
        settings = self.settings()
        tagger = find_tagger(settings["tagger"])
        catalogue = str(entry.data["catalogue"])
        return Shopping(goal_of(entry), catalogue, tagger, settings["compat"] == _ON)

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

    def settings(self) -> Mapping[str, str]:
        """The settings; the tagger with the version of its model."""
        chosen = dict(super().settings())
        chosen["tagger"] = find_tagger(chosen["tagger"]).name
        return chosen

    def expert(self, world: Shopping) -> tuple[str, str]:
        """Search for the goal's product, choose its options, buy it."""
        return world.expert_move()

    def demonstration_response(self, episode: Episode) -> str:
        """Search, choose and buy by what the prompt shows."""
        return format_response(*self.in_play(episode).world.shopper_move())

    def careless_response(self, episode: Episode, rng: random.Random) -> str:
        """The next action of a player who buys things as they are."""
        del rng
        return format_response(*self.in_play(episode).world.careless_move())

    def random_response(self, episode: Episode, rng: random.Random) -> str:
        """One of the listed clicks, or a search for words of the task."""
        return format_response("", self.in_play(episode).world.random_action(rng))

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


TASK = WebShopTask
