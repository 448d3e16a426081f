"""ALFWorld: do household chores by text commands."""
