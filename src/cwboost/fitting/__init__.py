"""From the user's arguments to a fitted model: options, input data, design, problem, fit."""
