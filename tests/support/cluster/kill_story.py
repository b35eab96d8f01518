"""Kill brokers of mixed clusters, and look for every acknowledged record: the campaign of `kill_lives`.

    python tests/support/cluster/kill_story.py --kills 200 --write docs/cluster-kills.md

plays that many kills of each broker of each cluster in turn, in rounds of one kill per broker. `--clusters kks` plays one composition: a
letter per broker, `k` is Apache Kafka 3.9.2 and `s` Semel. Ends with 1 if anything was wrong; the brokers' directories are kept then.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))  # As a program it finds its neighbours by itself.

from semel.peers import kafka as kafka_peer
from semel.runtime.environment import environment
from support.cluster.kill_lives import KillRounds, Tally, plan
from support.cluster.kill_page import Part, add, as_markdown
from support.cluster.mixed_cluster import mixed_cluster

KAFKA_VERSION: Final = "3.9.2"
CLUSTERS: Final = ("kks", "kss")


def play(name: str, *, kills: int, seed: int, scratch: Path) -> tuple[Part, bool]:
    """One cluster, and as many rounds as the kills need; and whether it came to its end. Ctrl-C ends it early, as does a wrong."""
    here, begun = environment(""), time.monotonic()
    home = replace(kafka_peer.find(KAFKA_VERSION), jvm=kafka_peer.QUICK_JVM)
    dice, tally, is_whole = random.Random(seed), Tally(), True
    directory = scratch / f"{name}-{seed}"
    directory.mkdir(parents=True)
    with mixed_cluster(home, directory, name) as cluster:
        rounds = KillRounds(cluster, home, directory, dice)
        number = 0
        try:
            while tally.kills.total() < kills and tally.is_right:
                number += 1
                tally.add(rounds.play(number, plan(cluster, dice)))
                _say(f"{name}: {tally.kills.total()} kills, {time.monotonic() - begun:.0f} s")
        except KeyboardInterrupt:
            is_whole = False
        except AssertionError as never:
            # Something that had to become so did not: a broker that does not come back, an ISR that stays small.
            tally.stories.append(f"round {number}: {str(never).splitlines()[0]}")
            _say(str(never))
    for story in tally.stories:
        _say(story)
    part = Part(
        cluster=name,
        seed=seed,
        kills=dict(sorted(tally.kills.items())),
        acked=tally.acked,
        seen=tally.seen,
        lost=tally.lost,
        duplicated=tally.duplicated,
        misplaced=tally.misplaced,
        disordered=tally.disordered,
        differing=tally.differing,
        unseen=tally.unseen,
        errors=tally.errors,
        renewed=tally.renewed,
        refused_starts=tally.refused_starts,
        seconds=round(time.monotonic() - begun, 1),
        commit=here.commit,
        date=here.date,
        machine=f"{here.cores} cores of {here.processor}, {here.python}",
        stories=tuple(tally.stories),
    )
    return part, is_whole


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of this module."""
    parser = argparse.ArgumentParser(description="Kill brokers of mixed clusters, and count.")
    parser.add_argument(
        "--kills", type=int, default=200, help="of brokers of each cluster in turn (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--clusters", default=",".join(CLUSTERS), help="kinds of brokers by letters (default %(default)s)"
    )
    parser.add_argument("--write", type=Path, metavar="PAGE", help="add the outcome to this page")
    options = parser.parse_args(arguments)
    scratch = Path(tempfile.mkdtemp(prefix="semel-cluster-kills-"))
    parts = list[Part]()
    for name in options.clusters.split(","):
        part, is_whole = play(name, kills=options.kills, seed=options.seed, scratch=scratch)
        parts.append(part)
        if options.write:
            add(options.write, [part])
        if not is_whole:
            break
    sys.stdout.write(as_markdown(parts))
    if all(one.is_right for one in parts):
        shutil.rmtree(scratch)
        return 0
    _say(f"the brokers' directories are in {scratch}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
