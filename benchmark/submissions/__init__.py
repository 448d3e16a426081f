"""Submissions: folders that are proven by replaying every episode, and what is computed of them."""
