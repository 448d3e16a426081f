"""The environments: tasks, their panels, prompts and scripted experts."""
