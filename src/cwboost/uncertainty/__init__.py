"""How certain a model is: information criteria, bootstrap bands and prediction intervals."""
