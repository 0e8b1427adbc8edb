"""Local copies of collections that keep themselves up to date."""
