"""
How many iterations?
====================

The number of iterations decides how flexible the model becomes. Cross-validation chooses it without
giving up rows: each fold is fitted to most of the rows and tested on the others after every
iteration.
"""

# %%
# Ten folds
# ---------
#
# The progress of 442 patients with diabetes within a year, from ten measurements. Pale lines are
# folds. Their risks differ much more than their best iterations. The mean over the folds is what
# matters.

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

import cwboost as cb

data = load_diabetes(scaled=False)
X, y = dict(zip(data.feature_names, data.data.T, strict=True)), data.target
found = cb.cv(X, y, n_iter=500)
found.plot()
plt.show()

# %%
# Two choices: the lowest mean risk, and the fewest iterations within one standard error of it.

found

# %%
# What the choice means
# ---------------------
#
# The curve of the body mass index after both numbers of iterations: the smaller model is flatter
# and leaves out what the folds cannot distinguish from noise.

models = {
    f"best, {found.best_iteration}": cb.fit(X, y, n_iter=found.best_iteration),
    f"within one standard error, {found.best_iteration_1se}": cb.fit(
        X, y, n_iter=found.best_iteration_1se
    ),
}
cb.ComparisonDisplay.from_estimators(models, "bmi")
plt.show()
for name, model in models.items():
    print(f"{name} iterations: {', '.join(sorted(set(model.choices)))}")

# %%
# Repeated folds
# --------------
#
# Other folds choose another number of iterations. Five divisions into ten folds show how much this
# matters: little, because the risk is flat around its minimum.

for seed in range(3):
    once = cb.cv(X, y, n_iter=500, random_state=seed)
    print(f"seed {seed}: {once.best_iteration} iterations, risk {once.best:.0f}")
repeated = cb.cv(X, y, n_iter=500, folds=cb.Folds("kfold", 10, repeats=5))
repeated.plot()
plt.show()

# %%
# Momentum
# --------
#
# Accelerated boosting reaches the minimum in fewer iterations and then overfits; the folds show
# where to stop it.

fig, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained", sharey=True)
optimizers = {"plain": cb.Plain(0.05), "accelerated": cb.Accelerated(0.05, 0.05)}
for ax, (name, optimizer) in zip(axes, optimizers.items(), strict=True):
    cb.cv(X, y, optimizer=optimizer, n_iter=500).plot(ax=ax)
    ax.set_title(name)
plt.show()
