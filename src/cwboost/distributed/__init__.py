"""The same fit on rows that are spread over several processes or machines; only sums travel."""
