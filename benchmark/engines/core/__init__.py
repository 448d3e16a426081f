"""What all engines share: the contract, the chat, the worker process and wrappers."""
