"""Behavior cloning: demonstrations, tiny models, training, the model card."""
