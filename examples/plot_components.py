"""
Line or curve? Let the model decide
===================================

``terms="components"`` gives every numeric column two terms: a straight line, and the curve without
its line. Both are equally flexible, so a column gets a curve only if a line will not do.
"""

# %%
# Diabetes
# --------
#
# 442 patients, ten measurements, the progress of the disease after a year. Below 1,000 rows no rows
# are held out by default; here a quarter is, to stop where the model predicts best.

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
# Terms named ``linear(...)`` are lines, ``centered(...)`` what they leave. The two add up to the
# effect of the column.

shares = model.model_.importance()
columns = list(dict.fromkeys(model.model_.terms[name].columns[0] for name in shares))[:4]
fig, axes = plt.subplots(1, 4, figsize=(11, 2.8), sharey=True, layout="constrained")
for ax, column in zip(axes, columns, strict=True):
    shown = model.model_.effect(column)
    ax.plot(shown[column], shown["effect"])
    line = model.model_.terms.get(f"linear({column})")
    if line is not None and line.chosen:
        part = model.model_.effect(f"linear({column})")
        ax.plot(part[column], part["effect"], "--", lw=1, color="0.6")
    ax.set_xlabel(column)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("effect (dashed: its line)")
plt.show()

# %%
# Which style predicts best here?
# -------------------------------
#
# R² by cross-validation, ten folds.

for terms in ("linear", "components", "smooth", "auto"):
    scores = cross_val_score(cb.CWBRegressor(terms=terms), data.data, y, cv=10)
    print(f"{terms:12}{np.mean(scores):6.3f}")
