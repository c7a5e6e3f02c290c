"""
Tuning a model
==============

How flexible should the terms be, how large the steps, and how many steps are needed? ``cb.tune``
tries many configurations for a few iterations and the better ones for longer, by cross-validation.
"""

# %%
# The search
# ----------
#
# Diabetes progression of 442 patients. The space has the df of the curves, the rate, and whether to
# use momentum. Hyperband starts with 32 configurations of 25 iterations, and repeatedly gives the
# better half twice as many, up to 800.

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

import cwboost as cb

data = load_diabetes(scaled=False)
X, y = dict(zip(data.feature_names, data.data.T, strict=True)), data.target
space = {
    "df": (2, 8),
    "rate": cb.LogUniform(0.02, 0.5),
    "optimizer": ["plain", "accelerated"],
    "momentum": cb.LogUniform(0.001, 0.1),
}
tuning = cb.tune(X, y, space, folds=5, schedule=cb.Hyperband(least=25, most=800))
print(tuning.summary())

# %%
# What matters
# ------------
#
# Every point is a configuration, at the last rung that it reached; the red one is the best. Stiff
# curves win, because so few patients hardly show more than straight lines. The rate hardly matters
# if there are enough iterations; a larger rate needs fewer.

tuning.plot()
plt.show()

# %%
# The same along the iterations: with momentum, the risk falls quickly and rises again as quickly. A
# plain fit reaches the same risk later, and stays there.

tuning.plot("paths")
plt.show()

# %%
# The final model
# ---------------
#
# ``tuning.fit()`` fits the best configuration to all rows, with the best number of iterations.

model = tuning.fit()
print(model.summary())

# %%
# Is it better than the default df and rate? The risk is a few percent lower, and a part of that is
# chance, because it is the best of 84. Separate test rows would show how much.

default = cb.tune(X, y, {"rate": 0.1}, folds=5, schedule=cb.RandomSearch(1, 400))
print(f"defaults {default.best.score:.1f}, tuned {tuning.best.score:.1f}")
