"""Starts a training run on several GPUs: vLLM servers, the trainer's processes, and their end."""
