"""Learning: behaviour cloning, fixed inits, and the reference trainer."""
