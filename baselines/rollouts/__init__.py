"""Groups of episodes for training, and the rows that they become."""
