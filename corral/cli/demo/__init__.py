"""``corral demo``: a throw-away cluster and one real job of every family."""
