"""Reading what a pull request brings, within stated bounds."""
