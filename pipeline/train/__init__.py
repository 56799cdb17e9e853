"""Training: one trainer for one process or many."""
