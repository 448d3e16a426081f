"""Playing and recording panels: protocol, rollout, records, replay, summary."""
