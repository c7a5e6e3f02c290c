"""Five real tables, each fitted unchanged in a few lines from its Parquet file:

    python examples/real_data.py FOLDER [TABLE ...]

Categories, missing cells and counts with an exposure do not need preparation. The files are Adult
(UCI), bike sharing by the hour (UCI), default of credit cards (UCI), French motor liability claims
(CASdatasets) and California housing with the distance to the ocean; a quarter of the rows is kept
for the figures that are printed:

    table    rows      on the new rows  predicted and observed means, lowest and highest fifth
    adult    48,842    AUC 0.927        0.003, 0.002 and 0.788, 0.780
    bike     17,379    D^2 0.813        17.3, 17.0 and 446, 440
    credit   30,000    AUC 0.783        0.076, 0.051 and 0.548, 0.557
    claims   678,013   D^2 0.059        0.052, 0.050 and 0.245, 0.250 (per year)
    houses   20,640    D^2 0.772        83,800, 91,100 and 360,000, 372,000
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import cwboost as cb


def split(file):
    return train_test_split(pd.read_parquet(file), random_state=0)


def adult(folder):
    """Who earns more than 50,000 a year? Numbers, categories, missing cells."""
    train, test = split(folder / "adult.parquet")
    model = cb.CWBClassifier(exclude=["class", "fnlwgt"]).fit(train, train["class"])
    return model, test, test["class"]


def bike(folder):
    """How many bicycles are rented in an hour? Counts."""
    train, test = split(folder / "bike_sharing_hour.parquet")
    model = cb.CWBRegressor("poisson", exclude=["cnt", "casual", "registered"])
    return model.fit(train, train["cnt"]), test, test["cnt"]


def credit(folder):
    """Who does not pay next month?"""
    train, test = split(folder / "credit_default.parquet")
    model = cb.CWBClassifier(exclude=["default", "ID"]).fit(train, train["default"])
    return model, test, test["default"]


def claims(folder):
    """How many claims has a motor policy? Counts, with the insured part of the year as exposure."""
    train, test = split(folder / "freMTPL2freq.parquet")
    model = cb.CWBRegressor("poisson", exposure="Exposure", exclude=["ClaimNb", "IDpol"])
    return model.fit(train, train["ClaimNb"]), test, test["ClaimNb"]


def houses(folder):
    """What is a house worth? The location is one term of two columns; the rest is automatic."""
    train, test = split(folder / "california_housing_ocean.parquet")
    place = cb.Tensor("longitude", "latitude", df=20)
    model = cb.CWBRegressor(learners=[place, ...], exclude=["median_house_value"])
    return model.fit(train, train["median_house_value"]), test, test["median_house_value"]


def report(model, X, y):
    """Print the summary, the quality on new rows, and observed and predicted means from the lowest
    to the highest fifth of the predictions (claims: per year)."""
    print(model.model_.summary())
    if isinstance(model, cb.CWBClassifier):
        fitted, fact = model.predict_proba(X)[:, 1], (y == model.classes_[1]).to_numpy()
        print(f"\nnew rows: AUC {roc_auc_score(fact, fitted):.4f}")
    else:
        fitted, fact = model.predict(X), y.to_numpy()
        print(f"\nnew rows: D^2 {model.score(X, y):.4f}")
    years = np.ones(len(X)) if model.model_.settings.exposure is None else X["Exposure"].to_numpy()
    fifths = np.array_split(np.argsort(fitted / years, kind="stable"), 5)
    for name, values in (("predicted", fitted), ("observed", fact)):
        means = [values[rows].sum() / years[rows].sum() for rows in fifths]
        print(f"{name:>10}" + "".join(f"{mean:12.4g}" for mean in means))


TABLES = {f.__name__: f for f in (adult, bike, credit, claims, houses)}


def main():
    folder, names = Path(sys.argv[1]), sys.argv[2:] or list(TABLES)
    for name in names:
        print(f"\n=== {name}: {TABLES[name].__doc__}\n")
        report(*TABLES[name](folder))


if __name__ == "__main__":
    main()
