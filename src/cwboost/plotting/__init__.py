"""Drawings of models and of what was found about them. The only package that knows matplotlib."""
