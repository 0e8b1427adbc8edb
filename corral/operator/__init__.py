"""The operator process: the controllers of every family, webhooks, and what pods report to."""
