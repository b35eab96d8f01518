"""The health of a cluster and the lag of its groups: judged here, shown by commands.

Rules.  * `rules` judges values and is pure; `doctor`, `lag` and `scrape` ask for them, over the protocol or a broker's metrics page.
        * Nothing is printed here and nothing is changed.
"""
