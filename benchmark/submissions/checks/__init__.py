"""The checks of a submission, a file each."""
