"""The registry of the fixed starting checkpoints."""
