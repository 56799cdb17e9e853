"""Training: the trainer and what it is made of."""
