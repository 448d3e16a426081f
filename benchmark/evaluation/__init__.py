"""Playing panels and keeping what was played: protocol, rollout, records, replay, summary."""
