"""Groups of episodes for training, and the rows made from them."""
