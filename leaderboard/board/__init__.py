"""The content of the board: computed from submissions, written to files, and read back."""
