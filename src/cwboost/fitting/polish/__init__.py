"""Polish: the terms that boosting chose, refitted together as one penalised additive model."""
