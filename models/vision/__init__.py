"""Networks that turn a picture into a grid of features."""
