"""What a model says: effects, importance, summary, trajectory, quality on given rows."""
