"""The folder that `arlarena-bench new-task` makes: a small task that passes."""
