"""The paper, reproduced: Schalk, Bischl, Rügamer, *Accelerated Componentwise Gradient Boosting
using Efficient Data Representation and Momentum-based Optimization*.

    python -m experiments h1                       a part of the grid, minutes
    python -m experiments h1 --scale paper         the whole grid; an interrupted run resumes
    python -m experiments eq2 --data FOLDER        tables from a folder of Parquet files, not OpenML
    python -m experiments all                      every experiment
    python -m experiments report                   one page of all results

An experiment is a module with the parameters of its grid at the top and

    tasks(scale)       the tasks: dictionaries that JSON can hold
    run(**task)        runs one task in its own process; returns one or several rows of results
    figure(results)    draws the paper's figure from these results
    table(results)     compares the paper's figures with these results; the verdict

runner.py runs tasks and stores results; simulated.py and datasets.py make data, variants.py the
models; found.py formats findings, style.py figures; report.py writes the page.
"""
