"""FederatedJob: rounds one after the other, until they are all done or the budget is spent."""
