"""Products, goals and the files with their data."""
