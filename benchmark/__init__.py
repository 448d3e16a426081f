"""Playing and judging: engines, rollouts, records, replay, statistics and reports."""
