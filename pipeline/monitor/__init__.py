"""What a person sees of a training run: on the terminal and in TensorBoard."""
