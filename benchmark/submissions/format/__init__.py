"""What an entry is: the schema of its file, the texts in it, and what is said of its faults."""
