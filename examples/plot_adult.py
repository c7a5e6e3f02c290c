"""
Who earns more than 50,000 a year?
==================================

The Adult table (UCI) comes with the package: 48,842 people, numbers and categories, missing cells.
Here it goes through the scikit-learn estimator as it is: fit, judge, look, explain.
"""

# %%
# Fit and judge
# -------------
#
# A quarter of the rows is kept for judging. ``fnlwgt`` is a sampling weight and no property of a
# person.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import cwboost as cb
from cwboost.datasets import adult

X = adult()
y = X.pop("class")
train, test = train_test_split(np.arange(len(y)), stratify=y, random_state=0)
rows = {name: column[train] for name, column in X.items()}
new = {name: column[test] for name, column in X.items()}

model = cb.CWBClassifier(exclude=["fnlwgt"]).fit(rows, y[train])
probability = model.predict_proba(new)[:, 1]
print(f"AUC on new rows: {roc_auc_score(y[test], probability):.4f}")

# %%
# What it found
# -------------
#
# Columns with two terms say in which shape their data came: a curve, or steps.

print(model.model_.summary())

# %%
# The effects on the log odds. An effect of 0.7 doubles the odds.

SHOWN = ("age", "hours-per-week", "education-num", "capital-gain")
fig, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
for ax, column in zip(axes.flat, SHOWN, strict=True):
    shown = model.model_.effect(column)
    ax.plot(shown[column], shown["effect"], drawstyle="steps-mid")
    ax.axhline(0, color="0.8", lw=0.8, zorder=0)
    ax.set_xlabel(column)
    ax.spines[["top", "right"]].set_visible(False)
for ax in axes[:, 0]:
    ax.set_ylabel("effect on the log odds")
axes[1, 1].set_xlim(-500, 20000)
plt.show()

# %%
# Can its probabilities be trusted?
# ---------------------------------

observed, predicted = calibration_curve(
    y[test] == ">50K", probability, n_bins=20, strategy="quantile"
)
fig, ax = plt.subplots(figsize=(4, 4), layout="constrained")
ax.plot([0, 1], [0, 1], color="0.8", lw=0.8)
ax.plot(predicted, observed, "o-", ms=4)
ax.set_xlabel("predicted share")
ax.set_ylabel("observed share")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Why this prediction?
# --------------------
#
# A score is the intercept plus one number per term, so the answer is a list.

person = {name: column[:1] for name, column in new.items()}
parts = {name: float(part[0]) for name, part in model.model_.contributions(person).items()}
print(f"{'intercept':24}{model.intercept_:8.2f}")
for name, part in sorted(parts.items(), key=lambda item: -abs(item[1]))[:8]:
    column = model.model_.terms[name].columns[0]
    print(f"{name:24}{part:8.2f}   {column} = {person[column][0]}")
print(f"{'score of all terms':24}{model.decision_function(person)[0]:8.2f}")
