"""What a model is made of: learners, bases and penalties, encoders, styles and formulas."""
