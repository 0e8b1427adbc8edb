"""Where a replica of a spot job runs next, given to `corral.spot`."""
