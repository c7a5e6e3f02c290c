"""How certain a model is: information criteria, bootstrap fits and prediction intervals."""
