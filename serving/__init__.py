"""From a trained model to an answer."""
