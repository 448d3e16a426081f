"""The submissions on a panel with few levels."""

from tests.benchmark.submissions.few_levels import (
    expert_run,
    few_levels,
    policy,
    random_run,
    submissions,
    trained,
)

__all__ = ["expert_run", "few_levels", "policy", "random_run", "submissions", "trained"]
