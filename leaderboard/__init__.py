"""The leaderboard: what was submitted, checked once and shown in one table."""
