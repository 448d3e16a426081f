"""What was played, and how alike two runs are."""
