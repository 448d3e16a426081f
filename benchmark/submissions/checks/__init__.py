"""The checks of a submission, one file each."""
