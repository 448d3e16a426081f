"""The registry of fixed starting checkpoints."""
