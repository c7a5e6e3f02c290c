"""
Why does this row get its prediction?
=====================================

The score of a row is the intercept plus one number per column. These numbers are the whole
explanation: they are exact, need no sampling, and equal the values of the effect curves.
"""

# %%
# Progress of diabetes
# --------------------
#
# 442 patients, ten measurements, the progress of the disease after a year.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import cwboost as cb

data = load_diabetes(scaled=False)
X = dict(zip(data.feature_names, data.data.T, strict=True))
X["sex"] = np.where(X["sex"] == 1, "female", "male")
model = cb.CWBRegressor(validation=0.25).fit(X, data.target).model_

# %%
# Two patients
# ------------
#
# Blue bars raise the prediction, orange bars lower it. Columns with very small effects share one
# bar.

names = {"bmi": "body mass index", "bp": "blood pressure", "s5": "log triglycerides", "s3": "HDL"}
prediction = model.predict(X)
low, high = int(prediction.argmin()), int(prediction.argmax())
fig, axes = plt.subplots(2, 1, figsize=(7, 6.4), sharex=True, layout="constrained")
for ax, row in zip(axes, (high, low), strict=True):
    options = {"max_bars": 6, "labels": names, "target": "progress"}
    model.plot(kind="explanation", table=X, row=row, ax=ax, **options)
    ax.set_title(f"patient {row}: observed {data.target[row]:.0f}", loc="left")
axes[0].set_xlabel("")
plt.show()

# %%
# The numbers behind a picture
# ----------------------------
#
# Every display keeps its data.

display = model.plot(kind="explanation", table=X, row=high)
plt.close(display.figure_)
print(display.data)

# %%
# Where the patient stands on the curves
# --------------------------------------

fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
for ax, column in zip(axes, ("bmi", "s5", "bp"), strict=True):
    model.plot(column, ax=ax, labels=names, target="progress")
    part = sum(
        effect[0]
        for name, effect in model.contributions({c: v[[high]] for c, v in X.items()}).items()
        if model.terms[name].columns == (column,)
    )
    ax.plot(X[column][high], part, "o", color="#D55E00", ms=9, mec="white", zorder=6)
for ax in axes[1:]:
    ax.set_ylabel("")
plt.show()
