"""What an episode asks for, as far as scripted players need to know it."""

from dataclasses import dataclass

from tasks.alfworld.goals import LOOK, PICK_TWO, TREATMENTS, Treatment


@dataclass(frozen=True, slots=True)
class Goal:
    """The parts of a task.

    Attributes:
        task_type: One of `goals.TASK_TYPES`.
        target: Kind of the object, as it is displayed (`butterknife`).
        destination: Kind of the receptacle, or of the lamp where the task is to look.
    """

    task_type: str
    target: str
    destination: str

    @property
    def treatment(self) -> Treatment | None:
        """How the object must be treated on the way."""
        return TREATMENTS.get(self.task_type)

    @property
    def looks(self) -> bool:
        """The object is to be looked at under a lamp, not to be put anywhere."""
        return self.task_type == LOOK

    @property
    def wanted(self) -> int:
        """How many objects are to be put into one receptacle."""
        return 2 if self.task_type == PICK_TWO else 1
