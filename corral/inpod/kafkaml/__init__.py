"""Names by which pods of earlier versions start programs of `corral.podtools`."""
