"""One container: its environment, its process, its log and its end."""
