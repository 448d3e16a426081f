"""The leaderboard: submissions, checked once and shown in one table."""
