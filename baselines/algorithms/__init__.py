"""The four choices of a policy gradient, one class each: see README.md."""
