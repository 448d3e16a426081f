"""The format of an entry: the schema of its file, its texts, and messages about faults."""
