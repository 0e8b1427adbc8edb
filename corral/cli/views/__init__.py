"""How jobs, objects and logs look in a terminal."""
