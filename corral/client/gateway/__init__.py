"""Jobs through a Corral gateway, over REST."""
