"""Pages of a study, written only from finished cells: one per track, and pages on all tracks."""
