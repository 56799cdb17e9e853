"""What differs between tasks on the road from records to an export: one small file a task."""
