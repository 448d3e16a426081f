"""Products, goals and the files that they come from."""
