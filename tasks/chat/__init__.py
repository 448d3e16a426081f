"""Prompts as messages, with images in them."""
