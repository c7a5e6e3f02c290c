"""Columns as bins: what the training rows have in a column, bin rules, bin indices and moments."""
