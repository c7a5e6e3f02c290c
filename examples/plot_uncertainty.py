"""
How sure is it? Bands and intervals
===================================

Without a band, a reader may overinterpret every bend of a curve. ``model.with_bands`` refits the
model to bootstrap draws of the rows and shows how far the curve may be from the truth; ``bags=``
shows how much fits to parts of the rows differ; ``model.intervals`` predicts the range of the next
value.
"""

# %%
# Energy use of 1,500 buildings
# -----------------------------
#
# Simulated, so that the truth is known: use falls with the outside temperature up to 18 degrees,
# and rises again where rooms are cooled; it varies more in the cold.

import matplotlib.pyplot as plt
import numpy as np

import cwboost as cb

rng = np.random.default_rng(3)
n = 1500
temperature = rng.normal(12, 9, n)
kind = rng.choice(["office", "school", "home", "hospital"], n, p=[0.4, 0.3, 0.27, 0.03])


def usual(t):
    return 1.2 * np.maximum(18 - t, 0) + 2.5 * np.maximum(t - 24, 0)


use = 40 + usual(temperature) + 12 * (kind == "hospital") - 4 * (kind == "home")
use = use + rng.normal(size=n) * (3 + 0.35 * np.maximum(18 - temperature, 0))
buildings = {"temperature": temperature, "kind": kind}

# %%
# A band around an effect
# -----------------------
#
# A hundred draws. At every single temperature, the dark band contains the true effect (dotted) with
# probability 0.95; the light band contains the whole curve. Both are wide where there are few rows.

model = cb.fit(buildings, use, n_iter=100, optimizer=cb.Plain(rate=0.3))
model = model.with_bands(buildings, use)
display = model.plot("temperature", target="energy use", view=(-15, 38))
whole = model.band("temperature", kind="simultaneous")
ax = display.ax_
ax.fill_between(whole["temperature"], whole["lower"], whole["upper"], color="#0072B2", alpha=0.1)
at = np.linspace(-15, 38, 200)
ax.plot(at, usual(at) - usual(temperature).mean(), ":", color="black", linewidth=1.5)
plt.show()

# %%
# Levels have bands as well. There are few hospitals: their effect is more uncertain, and shrunk
# towards zero, as the position of the dot in the band shows.

model.plot("kind", target="energy use")
plt.show()

# %%
# Bags
# ----
#
# The average of eight fits, each to four fifths of the rows, is one model again. The shaded range
# goes from the lowest to the highest fit and shows how much depends on the rows that were drawn. It
# is not a confidence band: the bags share most of their rows, and all of their bias.

averaged = cb.fit(buildings, use, n_iter=300, optimizer=cb.Plain(rate=0.3), bags=8)
print(averaged.summary())
averaged.plot(target="energy use")
plt.show()

# %%
# The next building
# -----------------
#
# Intervals for new values: calibrated by folds, they contain nine of ten values for any
# distribution. "cv+" intervals have the same width everywhere, so they are too wide where use is
# predictable and too narrow in the cold; "cqr" intervals, from calibrated quantile models, adapt
# their width.

row = {"temperature": np.linspace(-10, 32, 200), "kind": np.full(200, "office")}
offices = kind == "office"
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for ax, way in zip(axes, ("cv+", "cqr"), strict=True):
    intervals = model.intervals(buildings, use, kind=way, level=0.9, folds=5)
    ends = intervals.predict(row)
    ax.plot(temperature[offices], use[offices], ".", color="0.6", markersize=3)
    ax.fill_between(row["temperature"], ends["lower"], ends["upper"], color="#0072B2", alpha=0.25)
    inside = intervals.predict(buildings)
    for name, rows in (("cold", temperature < 5), ("mild", temperature > 15)):
        held = (inside["lower"] <= use) & (use <= inside["upper"])
        print(f"{way}, {name}: {held[rows].mean():.0%} of the buildings inside")
    ax.set_title(f'kind="{way}"', loc="left")
    ax.set_xlabel("temperature")
    ax.set_xlim(-10, 32)
axes[0].set_ylabel("energy use of offices")
plt.show()
