"""Training on a rollout: values, advantages, losses, optimizer steps."""
