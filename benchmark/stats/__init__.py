"""All statistics of the project: intervals, paired comparison, bootstrap and survival."""
