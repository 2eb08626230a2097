"""Trained models in the formats that other programs read: written, read back, compared, described."""
