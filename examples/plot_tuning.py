"""
Tuning a model
==============

How flexible should the terms be, how large the steps, and how many of them? ``cb.tune`` tries many
configurations for a few iterations and the better ones for longer, by cross-validation.
"""

# %%
# The search
# ----------
#
# Diabetes progression of 442 patients. The space has the df of the curves, the rate, and whether to
# use momentum. Hyperband begins with 32 configurations of 25 iterations, and gives the better half
# of them twice as many, until 800.

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
# curves win: there is little to see in so few patients but straight lines. The rate hardly matters,
# as long as there are iterations enough; a larger one just needs fewer.

tuning.plot()
plt.show()

# %%
# The same along the iterations: momentum dives, and comes up again as fast. A plain fit reaches the
# same depth later, and stays there.

tuning.plot("paths")
plt.show()

# %%
# The final model
# ---------------
#
# ``tuning.fit()`` fits the best configuration to all rows, with as many iterations as were best.

model = tuning.fit()
print(model.summary())

# %%
# Is it better than the default df and rate? By some percent of the risk, and a part of that is
# luck: it is the best of 84. Rows that were kept aside would tell.

default = cb.tune(X, y, {"rate": 0.1}, folds=5, schedule=cb.RandomSearch(1, 400))
print(f"defaults {default.best.score:.1f}, tuned {tuning.best.score:.1f}")
