"""What runs beside the user's code in a pod. Standard library first."""
