"""Learners of users' own: what the four choices cannot express, by name in a recipe."""

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar, Final, Literal, get_origin

import torch

from baselines.algorithms.part import Choice, own_code
from tasks.errors import UserError
from tasks.texts import first_line

_LEARNER: Final = ("baselines.learning.learner", "Learner")
"""Module and name of the base class, which imports this module."""


class CustomLearner(Choice):
    """Names a class that learns in place of the shipped one: `learner: {name: NAME}`.

    None is shipped. Constants are fields, which the learner reads from `self.config.learner`.

    Attributes:
        learner: The class, a subclass of `baselines.learning.learner.Learner`.
    """

    learner: ClassVar[type[Any]]

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Enter a learner.

        Raises:
            ValueError: Its class is missing or is no `Learner`, or another one has the name.
        """
        if get_origin(cls.model_fields["name"].annotation) is Literal:
            own = getattr(cls, "learner", None)
            if not isinstance(own, type):
                raise ValueError(f"{cls.__qualname__} lacks learner = CLASS, a subclass of Learner")
            if _LEARNER not in ((each.__module__, each.__qualname__) for each in own.__mro__):
                raise ValueError(
                    f"{cls.__qualname__}: {own.__qualname__} is not a subclass of Learner "
                    f"({'.'.join(_LEARNER)})"
                )
        super().__pydantic_init_subclass__(**options)


@contextmanager
def code_of_learner(chosen: CustomLearner | None) -> Iterator[None]:
    """Say in one line what the code of a custom learner raises.

    Args:
        chosen: The recipe's; None for the shipped learner.

    Raises:
        UserError: It has raised something (`own_code`).
    """
    with nullcontext() if chosen is None else own_code(chosen, f"the learner {chosen.name}"):
        yield


def state_of(learner: Any) -> Mapping[str, Any]:
    """What a learner (`baselines.learning.learner.Learner`) remembers; empty if nothing.

    Raises:
        UserError: Its code has raised something, or gives no dictionary.
    """
    with code_of_learner(learner.config.learner):
        state = learner.state_dict()
        if not isinstance(state, Mapping):
            raise TypeError(f"state_dict() gives {type(state).__name__} instead of a dictionary")
    return state


def packed(state: Mapping[str, Any]) -> bytes:
    """What a learner remembers, as a file that can be read without running code.

    Raises:
        UserError: There is something else in it than `Learner.state_dict` may give.
    """
    content = io.BytesIO()
    try:
        torch.save(dict(state), content)
        torch.load(io.BytesIO(content.getvalue()), "cpu", weights_only=True)
    # Pickles raise anything.
    except Exception as error:
        raise UserError(
            "state_dict() of the learner gives something that a checkpoint cannot hold; it may "
            "hold tensors, numbers, strings, and lists and dictionaries of them: "
            f"{first_line(error)}"
        ) from error
    return content.getvalue()


def restore_state(learner: Any, state: Mapping[str, Any]) -> None:
    """Give a learner back what it remembered at a checkpoint.

    Raises:
        UserError: Its code has raised something.
    """
    with code_of_learner(learner.config.learner):
        learner.load_state_dict(state)
