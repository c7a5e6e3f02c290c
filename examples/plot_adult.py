"""
Who earns more than 50,000 a year?
==================================

The Adult table (UCI) comes with the package: 48,842 rows, one per person, with numbers, categories
and missing cells. This example fits it unchanged with the scikit-learn estimator, evaluates the
model, plots it and explains predictions.
"""

# %%
# Fit and judge
# -------------
#
# A quarter of the rows is kept for evaluation. ``fnlwgt`` is a sampling weight, not a property of a
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
# If a column has two terms, the summary shows whether its effect is a curve or steps.

print(model.model_.summary())

# %%
# All effects, the most important first. Grey bars show where the rows are. An effect of 0.7 on the
# log odds doubles the odds.

model.plot(max_effects=9)
plt.show()

# %%
# One effect, as a factor of the odds, with the terms that add up to it.

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.4), layout="constrained")
model.plot("age", scale="ratio", labels={"age": "age (years)"}, ax=axes[0])
model.plot("age", parts=True, labels={"age": "age (years)"}, ax=axes[1])
plt.show()

# %%
# Levels are shown with their number of rows; rare levels share one line.

model.plot("native-country", max_levels=12)
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
# A score is the intercept plus one number per column, so the answer is a short list.

model.plot(kind="explanation", table=new, row=0)
plt.show()
