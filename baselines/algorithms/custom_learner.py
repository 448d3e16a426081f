"""Learners of users' own: what the four choices cannot express, by name in a recipe."""

from typing import Any, ClassVar, Literal, get_origin

from baselines.algorithms.part import Choice


class CustomLearner(Choice):
    """Names a class that learns in place of the shipped one: `learner: {name: NAME}`.

    None is shipped. Constants are fields, which the learner reads from `self.config.learner`.

    Attributes:
        learner: The class, a subclass of `baselines.learning.learner.Learner`.
    """

    learner: ClassVar[type]

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Enter a learner.

        Raises:
            ValueError: Its class is missing, or another one has the name.
        """
        named = get_origin(cls.model_fields["name"].annotation) is Literal
        if named and not isinstance(getattr(cls, "learner", None), type):
            raise ValueError(f"{cls.__qualname__} lacks learner = CLASS, a subclass of Learner")
        super().__pydantic_init_subclass__(**options)
