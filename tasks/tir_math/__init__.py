"""Tool-integrated math: reason, run Python in a sandbox, read its output, answer."""
