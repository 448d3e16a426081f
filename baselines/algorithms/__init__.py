"""The four choices of a policy gradient as pure functions: see README.md."""
