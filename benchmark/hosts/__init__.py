"""Where episodes live: in this process, or in worker processes."""
