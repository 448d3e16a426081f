"""What a training log says: its counts, batches, panels and start, and what two have in common."""
