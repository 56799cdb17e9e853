"""The graphs behind the signatures: one service a task."""
