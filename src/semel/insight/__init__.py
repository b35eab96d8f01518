"""The health of a cluster and the lag of its groups: judged here, shown by commands.

Internal: its modules may move in any release. Programs import the names of docs/client.md.

Rules.  * `rules` judges values and is pure; `doctor`, `lag` and `scrape` ask for them, over the protocol or a broker's metrics page.
        * Nothing is printed here and nothing is changed.
"""
