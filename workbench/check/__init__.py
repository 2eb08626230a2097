"""Looking at a search before a minute is spent on it. Importing this package imports no Keras."""
