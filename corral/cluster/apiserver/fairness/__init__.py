"""API priority and fairness: which requests may run at once, by priority level and flow."""
