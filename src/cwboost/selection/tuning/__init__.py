"""Hyperparameter search: the search space, schedules, evaluation on folds, successive halving."""
