"""Work queues of controllers, and how long a failing key waits."""
