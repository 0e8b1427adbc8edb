"""What Python programs import when they start in a pod; the folder is put on their PYTHONPATH."""
