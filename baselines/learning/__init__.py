"""What is done with a rollout: values of rows, advantages, losses, optimizer steps."""
