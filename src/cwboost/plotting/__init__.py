"""Plots with matplotlib (extra `plot`): one display per file, registered in registry.py."""
