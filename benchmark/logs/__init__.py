"""Training logs: schema, reading, grouping by seeds, and those of other trainers."""
