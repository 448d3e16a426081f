"""When engines that step in lockstep may take the next step."""

from benchmark.engines.core.lock_step import LockStep, Turn


class Asked:
    """An engine's turns, and the number of its requests."""

    def __init__(self) -> None:
        self.count = 1

    def turn(self) -> Turn:
        return Turn(lambda: self.count)


def begun(turn: Turn) -> int | None:
    return turn.wait(0.0)


def a_turn() -> Turn:
    return Asked().turn()


def test_a_step_waits_for_every_client() -> None:
    steps, turn = LockStep(), a_turn()
    with steps.client(), steps.request("engine"):
        with steps.client():
            steps.ready("engine", turn)
            assert begun(turn) is None  # the other client has not sent a request
        assert begun(turn) == 1  # it has left without a request


def test_a_step_waits_for_other_engines_that_have_been_asked() -> None:
    steps = LockStep()
    one, other = a_turn(), a_turn()
    with steps.request("one"), steps.request("other"):
        steps.ready("one", one)
        assert begun(one) is None
        steps.ready("other", other)
        assert begun(one) == begun(other) == 1
        # After one more step, one engine is the first to finish.
        again = a_turn()
        steps.ready("other", again)
        assert begun(again) is None


def test_an_engine_without_requests_is_not_waited_for() -> None:
    steps, turn = LockStep(), a_turn()
    with steps.request("other"):
        pass
    with steps.request("one"):
        steps.ready("one", turn)
        assert begun(turn) == 1


def test_a_turn_says_how_much_was_asked_when_it_began() -> None:
    steps, asked = LockStep(), Asked()
    turn, later = asked.turn(), asked.turn()
    with steps.request("engine"):
        asked.count = 2
        steps.ready("engine", turn)
        asked.count = 3
        assert begun(turn) == 2
        steps.ready("engine", later)
        assert begun(later) == 3


def test_a_client_whose_request_has_ended_is_waited_for_again() -> None:
    steps, turn = LockStep(), a_turn()
    with steps.client():
        with steps.request("other"):
            pass
        with steps.client(), steps.request("engine"):
            steps.ready("engine", turn)
            assert begun(turn) is None
    assert begun(turn) == 1


def test_without_clients_no_engine_waits_for_one_that_has_answered() -> None:
    steps, turn = LockStep(), a_turn()
    with steps.request("one"):
        with steps.request("other"):
            steps.ready("one", turn)
            assert begun(turn) is None
        assert begun(turn) == 1
