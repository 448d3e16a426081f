"""Training logs: schema, reading, grouping by seeds, and logs of other trainers."""
