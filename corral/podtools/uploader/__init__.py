"""Carries the global model to a task's pod, and the task's update from it to the registry."""
