"""
Line or curve? Let the model decide
===================================

``terms="components"`` gives every numeric column two terms: a straight line, and the curve without
its line. Both are equally flexible, so a column gets a curve only if a line is not sufficient.
"""

# %%
# Diabetes
# --------
#
# 442 patients, ten measurements, and the progress of the disease after a year. With fewer than
# 1,000 rows, no rows are held out by default; here a quarter is held out for early stopping.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import cross_val_score

import cwboost as cb

data = load_diabetes(scaled=False)
X, y = dict(zip(data.feature_names, data.data.T, strict=True)), data.target
model = cb.CWBRegressor(terms="components", validation=0.25).fit(X, y)
print(model.model_.summary())

# %%
# Terms named ``linear(...)`` are lines, ``centered(...)`` the rest of the curve. Their sum is the
# effect of the column.

fig, axes = plt.subplots(1, 3, figsize=(11, 3.2), sharey=True, layout="constrained")
for ax, column in zip(axes, ("s5", "bmi", "bp"), strict=True):
    model.plot(column, parts=True, target="progress", ax=ax)
for ax in axes[1:]:
    ax.set_ylabel("")
plt.show()

# %%
# Which style predicts best here?
# -------------------------------
#
# R² by cross-validation, ten folds.

for terms in ("linear", "components", "smooth", "auto"):
    scores = cross_val_score(cb.CWBRegressor(terms=terms), data.data, y, cv=10)
    print(f"{terms:12}{np.mean(scores):6.3f}")
