"""Metrics of held-out rows: see metric.py; scikit-learn scorers are in scorers.py."""
