"""
Correct a model, then hand it over
==================================

An expert can correct an interpretable model, and a sum of terms can be written in any language.
Here a price model is made to rise with size, loses a column that must not be used, and becomes a
SQL query.
"""

# %%
# A model with a dip
# ------------------
#
# Simulated houses: few are very large, and these happened to be sold cheaply.

import sqlite3

import matplotlib.pyplot as plt
import numpy as np

import cwboost as cb

rng = np.random.default_rng(4)
n = 2000
houses = {
    "size": rng.gamma(6, 20, n).round(1),
    "quarter": rng.choice(["centre", "harbour", "north", "south"], n),
    "agent": rng.choice(["a", "b", "c"], n),
}
worth = 2.5 * houses["size"] + 60 * (houses["quarter"] == "harbour") + 15 * (houses["agent"] == "c")
worth = worth - 1.2 * np.maximum(houses["size"] - 220, 0) ** 1.2 + rng.normal(0, 40, n)

model = cb.CWBRegressor().fit(houses, worth).model_
print(model.summary())

# %%
# Corrections
# -----------
#
# Every edit returns a new model and is recorded in it. A column may have two terms, a curve and
# steps; each chosen term is made to rise.

edited = model.edit("zero", "agent").edit("rounded", "quarter", digits=0)
for name, term in model.terms.items():
    if term.columns == ("size",) and term.chosen:
        edited = edited.edit("monotone", name, increasing=True)
print(edited.summary())

cb.ComparisonDisplay.from_estimators(
    {"as fitted": model, "edited": edited}, "size", target="the price", labels={"size": "size (m²)"}
)
plt.show()

# %%
# Into the database
# -----------------
#
# The query is plain SQL and gives the model's own predictions.

query = edited.to_sql(table="houses", dialect="sqlite")
print("\n".join(query.splitlines()[:12]) + "\n...")

database = sqlite3.connect(":memory:")
database.execute("CREATE TABLE houses (size REAL, quarter TEXT, agent TEXT)")
rows = zip(*(column.tolist() for column in houses.values()), strict=True)
database.executemany("INSERT INTO houses VALUES (?, ?, ?)", rows)
found = [row[-1] for row in database.execute(query)]
print(f"largest difference: {np.abs(np.array(found) - edited.predict(houses)).max():.1e}")
