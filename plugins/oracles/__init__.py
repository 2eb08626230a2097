"""The built-in search algorithms, one a file."""
