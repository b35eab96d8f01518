"""What tests share, by subject: worlds, doubles, drivers of clients and brokers, and the programs they start as processes.

Rules.  * A module here is imported as `support.SUBJECT.MODULE`; `tests` is on the path.
        * A program among them puts `tests` on the path itself, so that it runs by its name alone.
"""
