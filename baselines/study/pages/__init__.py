"""Pages of a study: of its tracks, and of what goes across them. From finished cells alone."""
