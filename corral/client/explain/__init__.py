"""Why a job waits or failed, from its objects, pods and events."""
