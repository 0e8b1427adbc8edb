"""Programs that make or check files of this repository; none of them is installed."""
