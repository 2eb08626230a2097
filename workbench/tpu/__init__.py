"""What a TPU makes of an architecture, found out on a machine without one. Importing this package imports no Keras."""
