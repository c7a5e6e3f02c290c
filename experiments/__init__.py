"""The paper, reproduced: Schalk, Bischl, Rügamer, *Accelerated Componentwise Gradient Boosting
using Efficient Data Representation and Momentum-based Optimization*.

    python -m experiments h1                       a corner of the grid, minutes
    python -m experiments h1 --scale paper         the whole grid; goes on where it was ended
    python -m experiments eq2 --data FOLDER        tables from a folder of Parquet files, not OpenML
    python -m experiments all                      every experiment
    python -m experiments report                   one page of what was found

An experiment is a module with the parameters of its grid at the top and

    tasks(scale)       what there is to do: dictionaries that JSON can hold
    run(**task)        does one, in a process of its own; returns one or several rows of results
    figure(results)    mirrors the paper's
    table(results)     the paper's figures beside those found here, and the verdict

runner.py runs and keeps; simulated.py and datasets.py make data, variants.py what is fitted to
them; found.py says what was found, style.py how it is drawn; report.py writes the page.
"""
