"""The content of the board: read from submissions, written to files, and read again."""
