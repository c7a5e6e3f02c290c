"""
Watching a model grow
=====================

Boosting adds one small step at a time, and a cwboost model stores all of them. So you can plot the
whole path: which term entered first, which is still growing, and where the fit stopped.
"""

# %%
# A fit to watch
# --------------
#
# The Adult table again, every fifth row. The hybrid optimizer starts with momentum, switches to
# plain steps when the validation risk stops falling, and continues.

import matplotlib.pyplot as plt

import cwboost as cb
from cwboost.datasets import adult

table = {name: column[::5] for name, column in adult().items()}
y = table.pop("class")
classifier = cb.CWBClassifier(exclude=["fnlwgt"], optimizer="hybrid").fit(table, y)
model = classifier.model_
print(model)

# %%
# The risk
# --------
#
# Pale lines are iterations that the hybrid discarded when it went back to its best iterate.

model.plot(kind="risk")
plt.show()

# %%
# The terms
# ---------
#
# One line per term: the standard deviation of its effect over the training rows. The marks at the
# bottom show when the term was chosen. Family comes first; capital gains, which few rows have, take
# longest.

model.plot(kind="traces")
plt.show()
# sphinx_gallery_thumbnail_number = 2

# %%
# One curve, at five times
# ------------------------
#
# ``model.at(m)`` is the model after m iterations, without fitting again.

times = (5, 20, 60, 150, model.best_iteration)
models = {f"after {m:,}": model.at(m) for m in times}
cb.ComparisonDisplay.from_estimators(models, "age", labels={"age": "age (years)"})
plt.show()
