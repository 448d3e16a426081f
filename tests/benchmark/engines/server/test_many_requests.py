"""Many simultaneous requests: limits on open files, and how long a request may take."""

import resource

import pytest

from benchmark.engines.choose import REQUEST_SECONDS, request_seconds
from benchmark.engines.server.open_files import ENOUGH, SPARE, allow_sockets
from tasks.errors import UserError
from tests.support.measured import alone

NOFILE = resource.RLIMIT_NOFILE


def _limits(soft: int, hard: int, sockets: int) -> tuple[int, int]:
    """The limits of this process after allowing this many sockets, starting from the given ones."""
    resource.setrlimit(NOFILE, (soft, hard))
    allow_sockets(sockets)
    return resource.getrlimit(NOFILE)


def test_a_low_limit_is_raised_as_far_as_the_system_allows() -> None:
    hard = 4_000
    assert alone(_limits, 1_024, hard, 2_560) == (hard, hard)
    assert alone(_limits, 1_024, hard, 100) == (1_024, hard)


def test_a_raised_limit_is_large_enough() -> None:
    hard = resource.getrlimit(NOFILE)[1]
    soft, _ = alone(_limits, 1_024, hard, 2_560)
    assert 2_560 + SPARE <= soft <= max(ENOUGH, hard)


def test_too_many_requests_for_the_system_are_a_mistake() -> None:
    with pytest.raises(UserError, match=r"2,560 requests at once need 2,816 open files"):
        alone(_limits, 1_024, 2_000, 2_560)


def test_a_request_may_wait_for_those_that_a_server_runs_before_it() -> None:
    assert request_seconds(512, 256, 1) == REQUEST_SECONDS
    # 4,096 tokens at 5 a second; 1,280 requests on each of two servers are five times 256.
    assert request_seconds(4_096, 2_560, 2) == 5 * 4_096 / 5
