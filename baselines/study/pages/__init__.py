"""Pages of a study, written from finished cells alone: one per track, and those over all tracks."""
