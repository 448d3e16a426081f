"""Training: behavior cloning, fixed inits, and the reference trainer."""
