"""
Smooth where the data are smooth, spiky where they are spiky
============================================================

By default (``terms="auto"``), a numeric column gets two terms: a smooth curve and a step function.
In every iteration boosting chooses the term that reduces the risk more, so each column gets a
suitable shape, and the summary shows which.
"""

# %%
# Two simulated columns
# ---------------------
#
# ``age`` has a smooth effect. ``gain`` resembles capital gains in a census: it is zero in most
# rows, the others have a few round amounts and a long tail, and neighbouring amounts may have
# different effects.

import matplotlib.pyplot as plt
import numpy as np

import cwboost as cb

rng = np.random.default_rng(0)
n = 8000
age = rng.uniform(18, 80, n)
sums = np.array([2000.0, 3500.0, 5000.0, 7700.0, 15000.0])
gain = np.where(rng.random(n) < 0.8, 0.0, rng.choice(sums, n))
tail = rng.random(n) < 0.03
gain[tail] = rng.lognormal(9, 0.7, tail.sum()).round()


def age_effect(x):
    return np.sin((x - 18) / 12)


def gain_effect(x):
    return np.select([x == 3500, x == 7700, x > 7000], [-1.0, 2.0, 1.0], 0.0)


y = age_effect(age) + gain_effect(gain) + rng.normal(0, 0.7, n)
X = {"age": age, "gain": gain}

# %%
# Three fits
# ----------
#
# Curves only, steps only, and the default.

models = {terms: cb.CWBRegressor(terms=terms).fit(X, y) for terms in ("smooth", "step", "auto")}
print(models["auto"].model_.summary())

# %%
# The default used the curve for most of ``age`` and only steps for ``gain``. Its effects are about
# as good as the better of the two others, measured by the root mean squared error of the effect of
# each column:

truth = {"age": age_effect(age), "gain": gain_effect(gain)}
print(f"{'':8}" + "".join(f"{column:>8}" for column in truth))
for terms, model in models.items():
    parts = model.model_.contributions(X)
    errors = []
    for column, true in truth.items():
        names = [name for name in parts if model.model_.terms[name].columns == (column,)]
        found = sum(parts[name] for name in names)
        errors.append(np.sqrt(np.mean((found - true + true.mean()) ** 2)))
    print(f"{terms:8}" + "".join(f"{error:8.3f}" for error in errors))

# %%
# The same as plots: the sum of all terms of a column, at the rows of the table.

fig, axes = plt.subplots(2, 3, figsize=(9, 5), sharey="row", sharex="row", layout="constrained")
for k, (terms, model) in enumerate(models.items()):
    parts = model.model_.contributions(X)
    for j, (column, true) in enumerate(truth.items()):
        names = [name for name in parts if model.model_.terms[name].columns == (column,)]
        order = np.argsort(X[column])
        ax = axes[j, k]
        ax.plot(X[column][order], (true - true.mean())[order], color="0.7", lw=3, label="true")
        ax.plot(X[column][order], sum(parts[name] for name in names)[order], lw=1.2, label="found")
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_xlabel(column)
        if column == "gain":
            ax.set_xlim(-500, 20000)
    axes[0, k].set_title(terms, fontsize=10)
axes[0, 0].legend(frameon=False, fontsize=9)
for ax in axes[:, 0]:
    ax.set_ylabel("effect on y")
plt.show()
