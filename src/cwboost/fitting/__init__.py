"""From the user's arguments to a fitted model: options, input data, term plans, problem, fit."""
