"""Members that join, leave, die by kill -9 and freeze beyond their session, and a broker that is killed among them.

Method: tests/support/groups/group_chaos.py, for a short while. `python tests/support/groups/group_chaos.py` plays it with 20 members for minutes.
"""

from pathlib import Path

from support.groups import group_chaos


def test_nothing_is_left_out_and_nothing_owned_twice(tmp_path: Path) -> None:
    print(group_chaos.run(tmp_path, seed=5, members=6, seconds=20, partitions=12))
