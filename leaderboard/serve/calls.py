"""What the page's own events send: the only calls that gradio gets to see.

Gradio takes whatever a call brings: an object that names a file has it read and copied, one that
names an address has it fetched, before any function of the page is asked. So a call is taken apart
here first. Only texts, lists of texts and truth values pass, each where its control has one, and
only the query of a link goes with them.

Nothing is kept of a visitor either. A state of gradio's own takes 0.4 MB, and the page needs none:
what is shown follows from the values and the query. All calls go on under one name.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import gradio as gr

SESSION: Final = "page"
"""The one session of gradio's that all visitors have in common."""
_KEYS: Final = {"data", "event_data", "fn_index", "session_hash", "trigger_id"}
_TEXT: Final = "a text"
_TEXTS: Final = "a list of texts"
_FLAG: Final = "true or false"


class BadRequest(ValueError):
    """A call that the page does not make; the message is one line for whoever made it."""


@dataclass(frozen=True, slots=True)
class Event:
    """What one event of the page sends.

    Attributes:
        values: What each of its controls has, in order; null stands for nothing chosen.
        linked: It brings the query of a link.
        slow: It is what the page asks for on its own, since it may take seconds.
    """

    values: tuple[str, ...]
    linked: bool
    slow: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A call that the page makes.

    Attributes:
        body: What gradio gets: rebuilt of what is known of the call.
        slow: See `Event`.
    """

    body: bytes
    slow: bool


@dataclass(frozen=True, slots=True)
class EventSchemas:
    """The events of a page.

    Attributes:
        events: By the numbers that gradio has given them.
    """

    events: Mapping[int, Event]

    @classmethod
    def of(cls, demo: gr.Blocks) -> Self:
        """The events of a page that is built.

        Raises:
            TypeError: An event reads a component of which it is not known what it sends.
        """
        events = {}
        for number, event in demo.fns.items():
            linked = all(isinstance(demo.blocks.get(own or 0), gr.HTML) for own, _ in event.targets)
            # A content says `select` when a link in it is followed, and `input` for what it lacks.
            slow = linked and all(name == "input" for _, name in event.targets)
            events[number] = Event(tuple(_sent_by(each) for each in event.inputs), linked, slow)
        return cls(events)

    def checked(self, body: bytes) -> Call:
        """Take a call apart.

        Args:
            body: What was sent.

        Raises:
            BadCall: It is no call of this page.
        """
        try:
            call = json.loads(body)
        except (ValueError, RecursionError):
            raise BadRequest("the body must be JSON") from None
        if not isinstance(call, dict):
            raise BadRequest("the body must be an object")
        if unknown := set(call) - _KEYS:
            raise BadRequest(f"unknown field {ascii(min(unknown))[:60]}")
        number, sent = call.get("fn_index"), call.get("data")
        event = self.events.get(number) if type(number) is int else None
        if event is None:
            raise BadRequest("fn_index must be the number of an event of this page")
        if not isinstance(sent, list) or len(sent) != len(event.values):
            raise BadRequest(f"data must be a list of {len(event.values)} values")
        for place, (value, kind) in enumerate(zip(sent, event.values, strict=True)):
            if not _is(value, kind):
                raise BadRequest(f"data[{place}] must be {kind}, or null")
        known = {"fn_index": number, "data": sent, "session_hash": SESSION}
        brought = call.get("event_data")
        if event.linked:
            known["event_data"] = {"href": _query(brought)}
        elif brought is not None:
            raise BadRequest("event_data must be null")
        try:
            return Call(json.dumps(known, ensure_ascii=False).encode("utf-8"), event.slow)
        except UnicodeEncodeError:
            raise BadRequest("texts must be Unicode: half of a surrogate pair is none") from None


def _sent_by(component: Any) -> str:
    if isinstance(component, gr.Checkbox):
        return _FLAG
    if isinstance(component, gr.CheckboxGroup):
        return _TEXTS
    if isinstance(component, gr.Dropdown):
        return _TEXTS if component.multiselect else _TEXT
    if isinstance(component, gr.Textbox):
        return _TEXT
    raise TypeError(f"what a {type(component).__name__} sends is not known: say so in {__name__}")


def _is(value: object, kind: str) -> bool:
    if value is None:
        return True
    if kind == _TEXTS:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    return isinstance(value, bool if kind == _FLAG else str)


def _query(sent: object) -> str:
    if isinstance(sent, dict) and set(sent) == {"href"} and isinstance(sent["href"], str):
        return sent["href"]
    raise BadRequest('event_data must be {"href": a query} and nothing else')
