"""The logs of all pods of a job as one stream that can be resumed at any place."""
