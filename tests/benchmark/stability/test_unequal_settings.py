"""What else than the method differs between training runs that are compared."""

from typing import Any

from benchmark.logs.lines import Start
from benchmark.stability.unequal_settings import unequal_settings
from tasks.seeding import sha256_text
from tests.support.training.logs import start_line

TRACK = {"name": "sokoban-stress", "sha256": sha256_text("track")}


def start(rate: float, track: Any = None, **settings: Any) -> Start:
    configuration = {
        "advantage": {"name": f"of {rate}"},
        "optimization": {"learning_rate": rate, "updates": rate, "micro_batch_tokens": rate},
        **settings,
    }
    return Start.model_validate(start_line(configuration=configuration, track=track))


def test_settings_that_both_runs_have_are_named_the_learning_rate_first() -> None:
    runs = [start(1e-4, kl={"coef": 0, "new": 1}), start(5e-4, kl={"coef": 0.5})]
    assert unequal_settings(runs) == (
        "not only the method differs: optimization.learning_rate (0.0001 or 0.0005), "
        "kl.coef (0 or 0.5)"
    )
    many = [start(1, **dict.fromkeys(map(str, range(8)), value)) for value in (1, 2)]
    assert unequal_settings(many).endswith("5 (1 or 2) and 2 more settings")


def test_nothing_is_said_of_one_track_and_of_equal_settings() -> None:
    assert unequal_settings([start(1, TRACK), start(2, TRACK)]) == ""
    assert unequal_settings([start(1, TRACK), start(2)]) != ""
    assert unequal_settings([start(1), start(1)]) == unequal_settings([]) == ""
