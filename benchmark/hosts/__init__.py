"""Where episodes run: in this process or in worker processes."""
