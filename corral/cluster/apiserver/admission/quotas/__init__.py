"""ResourceQuota: what objects count, whether there is room, and the status of quotas."""
