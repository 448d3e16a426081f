"""What a model is sent: messages, and images in them."""
