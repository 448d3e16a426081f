"""Starts and ends a training run on several GPUs: vLLM servers and the trainer's processes."""
