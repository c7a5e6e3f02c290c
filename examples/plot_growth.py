"""
Watching a model grow
=====================

Boosting adds one small step at a time, and a model of cwboost remembers all of them. So one can
look at the whole path: which term came first, which one is still growing, and where the fit was
right to stop.
"""

# %%
# A fit to watch
# --------------
#
# The Adult table again, every fifth row. The hybrid optimizer begins with momentum, switches to
# plain steps when the validation risk stops falling, and goes on.

import matplotlib.pyplot as plt

import cwboost as cb
from cwboost.datasets import adult

table = {name: column[::5] for name, column in adult().items()}
y = table.pop("class")
classifier = cb.CWBClassifier(exclude=["fnlwgt"], n_iter=1000).fit(table, y)
model = classifier.model_
print(model)

# %%
# The risk
# --------
#
# Pale lines are iterations that the hybrid left behind when it went back to its best iterate.

model.plot(kind="risk")
plt.show()

# %%
# The terms
# ---------
#
# One line per term: the standard deviation of its effect over the training rows. The marks at the
# foot say when the term was chosen. Family comes first; the capital gains of a few people take
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
