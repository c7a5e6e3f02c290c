"""Choosing iterations, columns and hyperparameters: folds, cross-validation, tuning."""
