"""The registry of tracks, and the tuning of learning rates."""
