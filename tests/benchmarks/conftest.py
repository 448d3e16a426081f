"""Calls measured beside a reference, and what of it is written down.

A benchmark test calls `beside(ours, reference, name)`. Both are called in turns in the same process
and their processor time is taken (`make benchmarks` says so to pytest-benchmark), so that a busy
machine makes both slower. The median over the rounds of ours / reference is the test's ratio, which
`compare.py` holds against the committed one. Without `--benchmark-enable` every test runs once.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any, Protocol

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

KEPT = ("name", "extra_info")
"""Of what pytest-benchmark knows of a test. The rest is this machine's, or every single time."""


class Beside(Protocol):
    """Measures a call beside a reference."""

    def __call__(
        self,
        ours: Callable[[], object],
        reference: Callable[[], object],
        name: str,
        rounds: int = 20,
    ) -> None:
        """Measure.

        Args:
            ours: Takes some milliseconds.
            reference: The same work done in another way, or the least that it takes.
            name: Of the reference.
            rounds: How often each is called, after once without a clock.
        """


@pytest.fixture
def beside(benchmark: BenchmarkFixture) -> Beside:
    """See `Beside`."""

    def measure(
        ours: Callable[[], object], reference: Callable[[], object], name: str, rounds: int = 20
    ) -> None:
        times: list[float] = []

        def other() -> None:
            began = time.process_time()
            reference()
            times.append(time.process_time() - began)

        benchmark.pedantic(ours, setup=other, rounds=rounds, warmup_rounds=1)  # type: ignore[no-untyped-call]
        if benchmark.enabled:
            assert benchmark.stats is not None
            pairs = zip(benchmark.stats.stats.data, times[1:], strict=True)
            ratio = median(one / another for one, another in pairs)
            benchmark.extra_info |= {"reference": name, "ratio": float(f"{ratio:.4g}")}

    return measure


def pytest_benchmark_update_json(
    config: pytest.Config, benchmarks: list[Any], output_json: dict[str, Any]
) -> None:
    """Leave out the machine, the commit and the single times."""
    del config, benchmarks
    measured = [{name: one[name] for name in KEPT} for one in output_json["benchmarks"]]
    output_json.clear()
    output_json["benchmarks"] = measured
