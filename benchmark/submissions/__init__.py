"""Submissions: folders verified by replaying every episode, and what is computed from them."""
