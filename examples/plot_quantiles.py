"""
Quantiles: how long at most?
============================

The mean says what to expect, a quantile what to be prepared for. With ``cb.Quantile(tau)``, the
model predicts the value that a share tau of the rows stays below.
"""

# %%
# Simulated waiting times
# -----------------------
#
# Patients wait longer around noon, and their waiting times also vary more then. Mondays are worse.
# The weekday is unknown for one row in twenty.

import matplotlib.pyplot as plt
import numpy as np

import cwboost as cb

rng = np.random.default_rng(5)
n = 6000
hour = rng.uniform(8, 18, n)
weekday = rng.choice(["Mon", "Tue", "Wed", "Thu", "Fri"], n).astype(object)
crowd = np.exp(-((hour - 12) ** 2) / 4) + 0.5 * (weekday == "Mon")
wait = 10 + 20 * crowd + rng.gamma(2, 2 + 6 * crowd)
weekday[rng.random(n) < 0.05] = None
visits = {"hour": hour, "weekday": weekday}

# %%
# Three fits
# ----------
#
# A fifth of the rows is held out for early stopping; new test rows show whether the shares are
# right.

levels = (0.1, 0.5, 0.9)
test = np.arange(n) % 4 == 0
train = {name: column[~test] for name, column in visits.items()}
new = {name: column[test] for name, column in visits.items()}
models = {
    f"{tau:.0%} wait less": cb.CWBRegressor(cb.Quantile(tau), terms="smooth").fit(
        train, wait[~test]
    )
    for tau in levels
}
for name, model in models.items():
    print(f"{name}: {np.mean(wait[test] <= model.predict(new)):.1%} of the new rows")

# %%
# The effect of the hour
# ----------------------
#
# The effects differ: around noon, short waits hardly become longer, but long waits become much
# longer. A model of the mean could not show this.

cb.ComparisonDisplay.from_estimators(
    models, "hour", target="the wait (minutes)", labels={"hour": "hour of the day"}
)
plt.show()

# %%
# The predictions
# ---------------
#
# A Monday, hour by hour. The three models are fitted separately, so their curves could cross; with
# this many rows they do not.

grid = np.linspace(8, 18, 200)
monday = {"hour": grid, "weekday": np.full(200, "Mon", object)}
fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
shown = visits["weekday"] == "Mon"
ax.plot(hour[shown], wait[shown], ".", ms=2.5, color="0.75", rasterized=True)
for (name, model), style in zip(models.items(), (":", "-", "--"), strict=True):
    ax.plot(grid, model.predict(monday), style, color="#0072B2", lw=2, label=name)
ax.set(xlabel="hour of the day", ylabel="waiting time (minutes), Mondays", ylim=(0, 100))
ax.legend(frameon=False, loc="upper right", fontsize=9)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
