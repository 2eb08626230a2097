"""The built-in data sets, one per file."""
