"""The HTML report of a model."""
