"""The embedded twin of TensorFlow Serving: it serves SavedModels and knows nothing else."""
