"""From files to a trained, scored and exported model."""
