"""The configuration of a training: its schema, and recipes and scales laid over each other."""
