"""The worlds that are played: tasks, their panels, prompts and scripted experts."""
