"""Tool-integrated mathematics: reason, run Python in a sandbox, read what it printed, answer."""
