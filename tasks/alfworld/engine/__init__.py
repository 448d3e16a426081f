"""The PDDL engine: plays problems of the pinned domain with the texts of the pinned grammar."""
