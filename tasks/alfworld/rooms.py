"""The four kinds of rooms: their furniture and possible objects.

What can lie in what, what opens and what a task can ask for come from the installed package's
tables. The package has no table of what a kitchen holds, so that is written here, after how often
things occur in the real games. Rooms are smaller than real ones: 8 to 25 receptacles, where real
kitchens have 20 to 54 and other rooms 7 to 35; there are as many objects per receptacle as there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tasks.alfworld.engine.package import Constants, constants
from tasks.alfworld.goals import LOOK, PICK_TWO, TREATMENTS
from tasks.alfworld.household import ROOM_KINDS

LAMP = "DeskLamp"
"""The lamp of every real game to look at something; the others stand in no receptacle."""

FEWEST_RECEPTACLES = 8
MOST_RECEPTACLES = 25


@dataclass(frozen=True, slots=True)
class Furniture:
    """A receptacle type of a room kind.

    Attributes:
        type: The type.
        chance: Probability that the room has any.
        fewest: Fewest if it has any.
        most: Most.
    """

    type: str
    chance: float
    fewest: int
    most: int


@dataclass(frozen=True, slots=True)
class Space:
    """How a receptacle type attracts objects.

    Attributes:
        weight: Relative probability that an object which fits lies here.
        places: Most objects at the start.
    """

    weight: float
    places: int


@dataclass(frozen=True, slots=True)
class RoomKind:
    """A kind of room.

    Attributes:
        furniture: What stands in it.
        stock: Object types that may lie in it, with the probability that there are any.
        fixtures: Objects that cannot be taken, with their probability.
    """

    furniture: tuple[Furniture, ...]
    stock: Mapping[str, float]
    fixtures: Mapping[str, float]


SPACES: Mapping[str, Space] = MappingProxyType(
    {
        "ArmChair": Space(1, 2),
        "BathtubBasin": Space(1, 3),
        "Bed": Space(4, 5),
        "Cabinet": Space(0.8, 3),
        "Cart": Space(2, 4),
        "CoffeeMachine": Space(1, 1),
        "CoffeeTable": Space(4, 6),
        "CounterTop": Space(6, 9),
        "Desk": Space(5, 7),
        "DiningTable": Space(6, 10),
        "Drawer": Space(0.9, 3),
        "Dresser": Space(4, 6),
        "Fridge": Space(5, 6),
        "GarbageCan": Space(0.7, 3),
        "HandTowelHolder": Space(6, 1),
        "LaundryHamper": Space(0.3, 2),
        "Microwave": Space(1.5, 2),
        "Ottoman": Space(1, 2),
        "Safe": Space(1.5, 2),
        "Shelf": Space(1, 3),
        "SideTable": Space(2.5, 4),
        "SinkBasin": Space(2, 4),
        "Sofa": Space(2.5, 4),
        "StoveBurner": Space(4, 1),
        "TVStand": Space(2, 3),
        "Toaster": Space(1, 1),
        "Toilet": Space(2, 4),
        "ToiletPaperHanger": Space(1, 1),
        "TowelHolder": Space(6, 1),
    }
)

FIXTURE_PLACES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        LAMP: ("Desk", "SideTable", "Dresser", "Shelf"),
        "HousePlant": ("CoffeeTable", "CounterTop", "Desk", "DiningTable", "SideTable"),
        "Television": ("Dresser", "TVStand"),
    }
)
"""Where objects stand that cannot be taken; the package's tables leave them out."""

ROOMS: Mapping[str, RoomKind] = MappingProxyType(
    {
        "Kitchen": RoomKind(
            furniture=(
                Furniture("Cabinet", 1, 2, 6),
                Furniture("CoffeeMachine", 1, 1, 1),
                Furniture("CounterTop", 1, 1, 3),
                Furniture("DiningTable", 0.4, 1, 1),
                Furniture("Drawer", 1, 1, 4),
                Furniture("Fridge", 1, 1, 1),
                Furniture("GarbageCan", 1, 1, 1),
                Furniture("Microwave", 1, 1, 1),
                Furniture("Shelf", 0.45, 2, 3),
                Furniture("SideTable", 0.1, 1, 1),
                Furniture("SinkBasin", 1, 1, 1),
                Furniture("StoveBurner", 1, 2, 4),
                Furniture("Toaster", 1, 1, 1),
            ),
            stock={
                **dict.fromkeys(("Apple", "Bowl", "Bread", "ButterKnife", "Cup", "Egg"), 0.75),
                **dict.fromkeys(("DishSponge", "Fork", "Knife", "Lettuce", "Mug", "Pan"), 0.75),
                **dict.fromkeys(("PepperShaker", "Plate", "Pot", "Potato", "SaltShaker"), 0.75),
                **dict.fromkeys(("SoapBottle", "Spatula", "Spoon", "Tomato"), 0.75),
                **dict.fromkeys(("CellPhone", "CreditCard", "Glassbottle", "Statue"), 0.3),
                **dict.fromkeys(("Kettle", "Ladle", "Vase", "WineBottle"), 0.3),
            },
            fixtures={"HousePlant": 0.5},
        ),
        "LivingRoom": RoomKind(
            furniture=(
                Furniture("ArmChair", 0.95, 1, 2),
                Furniture("Cabinet", 0.3, 1, 4),
                Furniture("CoffeeTable", 0.65, 1, 2),
                Furniture("Desk", 0.1, 1, 1),
                Furniture("DiningTable", 0.4, 1, 1),
                Furniture("Drawer", 0.8, 1, 5),
                Furniture("Dresser", 0.5, 1, 1),
                Furniture("GarbageCan", 1, 1, 1),
                Furniture("Ottoman", 0.15, 1, 1),
                Furniture("Safe", 0.25, 1, 1),
                Furniture("Shelf", 0.45, 2, 5),
                Furniture("SideTable", 0.8, 1, 3),
                Furniture("Sofa", 1, 1, 1),
                Furniture("TVStand", 0.2, 1, 1),
            ),
            stock={
                **dict.fromkeys(("Box", "CreditCard", "KeyChain", "Laptop"), 0.9),
                **dict.fromkeys(("Pillow", "RemoteControl", "Statue"), 0.9),
                **dict.fromkeys(("Newspaper", "TissueBox", "Vase", "Watch"), 0.6),
                **dict.fromkeys(("Book", "CellPhone", "Pen", "Pencil", "Plate"), 0.3),
                **dict.fromkeys(("Bowl", "Candle", "WateringCan"), 0.2),
            },
            fixtures={"HousePlant": 0.8, "Television": 0.7, LAMP: 0.2},
        ),
        "Bedroom": RoomKind(
            furniture=(
                Furniture("ArmChair", 0.15, 1, 2),
                Furniture("Bed", 1, 1, 1),
                Furniture("Cabinet", 0.1, 1, 4),
                Furniture("Desk", 0.85, 1, 2),
                Furniture("DiningTable", 0.1, 1, 1),
                Furniture("Drawer", 1, 2, 6),
                Furniture("Dresser", 0.3, 1, 1),
                Furniture("GarbageCan", 1, 1, 1),
                Furniture("LaundryHamper", 0.5, 1, 1),
                Furniture("Safe", 0.5, 1, 1),
                Furniture("Shelf", 0.7, 1, 5),
                Furniture("SideTable", 0.45, 1, 2),
            ),
            stock={
                **dict.fromkeys(("AlarmClock", "Book", "CD", "CellPhone", "CreditCard"), 0.9),
                **dict.fromkeys(("KeyChain", "Laptop", "Pen", "Pencil", "Pillow"), 0.9),
                **dict.fromkeys(("BaseballBat", "BasketBall", "Bowl", "Mug"), 0.5),
                **dict.fromkeys(("Box", "Cloth", "RemoteControl", "Statue"), 0.2),
                **dict.fromkeys(("TennisRacket", "TissueBox", "Vase", "Watch"), 0.15),
            },
            fixtures={"HousePlant": 0.2, "Television": 0.1, LAMP: 0.75},
        ),
        "Bathroom": RoomKind(
            furniture=(
                Furniture("BathtubBasin", 0.6, 1, 1),
                Furniture("Cabinet", 0.65, 2, 4),
                Furniture("Cart", 0.1, 1, 1),
                Furniture("CounterTop", 0.9, 1, 1),
                Furniture("Drawer", 0.4, 1, 4),
                Furniture("Dresser", 0.1, 1, 1),
                Furniture("GarbageCan", 1, 1, 1),
                Furniture("HandTowelHolder", 1, 1, 2),
                Furniture("Shelf", 0.25, 1, 3),
                Furniture("SideTable", 0.1, 1, 1),
                Furniture("SinkBasin", 1, 1, 2),
                Furniture("Toilet", 1, 1, 1),
                Furniture("ToiletPaperHanger", 1, 1, 1),
                Furniture("TowelHolder", 1, 1, 1),
            ),
            stock={
                **dict.fromkeys(("Candle", "Cloth", "HandTowel", "SoapBar", "SoapBottle"), 0.9),
                **dict.fromkeys(("SprayBottle", "ToiletPaper", "Towel"), 0.9),
                **dict.fromkeys(("DishSponge", "TissueBox"), 0.3),
            },
            fixtures={},
        ),
    }
)

# Real games ask for no destination of these types: basins (things there are being washed), holders
# for towels, and receptacles that hardly anything fits in.
_NEVER_DESTINATIONS = frozenset(
    {
        "BathtubBasin",
        "HandTowelHolder",
        "LaundryHamper",
        "SinkBasin",
        "TVStand",
        "Toaster",
        "TowelHolder",
    }
)
# Bulky things that real rooms have and real tasks leave alone.
_NEVER_TARGETS = frozenset({"BaseballBat", "BasketBall", "TennisRacket", "Towel"})


def rooms_of(task_type: str) -> tuple[str, ...]:
    """The room kinds where a task type is asked, in the order of `ROOM_KINDS`."""
    allowed = constants().rooms[task_type]
    return tuple(kind for kind in ROOM_KINDS if kind in allowed)


def targets_of(task_type: str, room: str) -> tuple[str, ...]:
    """The object types of a room that a task type can ask for."""
    treatment = TREATMENTS.get(task_type)
    table = constants()
    return tuple(
        name
        for name in ROOMS[room].stock
        if name not in _NEVER_TARGETS
        and (treatment is None or name in table.actions[treatment.action])
    )


def destinations_of(task_type: str, target: str, present: tuple[str, ...]) -> tuple[str, ...]:
    """The receptacle types among those present that a task type can ask to put the target in."""
    if task_type == LOOK:
        return (LAMP,)
    treatment = TREATMENTS.get(task_type)
    table = constants()
    return tuple(
        name
        for name in dict.fromkeys(present)
        if name not in _NEVER_DESTINATIONS
        and (treatment is None or name != treatment.appliance)
        and not (task_type == PICK_TWO and SPACES[name].places < 2)
        and fits(table, target, name)
    )


def fits(table: Constants, object_type: str, receptacle_type: str) -> bool:
    """Whether an object may stand in a receptacle when a game begins."""
    places = FIXTURE_PLACES.get(object_type)
    if places is not None:
        return receptacle_type in places
    return object_type in table.contains[receptacle_type]
