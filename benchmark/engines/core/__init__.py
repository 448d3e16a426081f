"""Code shared by all engines: the interface, the chat, the worker and wrappers."""
