"""The fitted model: terms, path and settings, prediction, exact pieces, edits. Holds no rows."""
