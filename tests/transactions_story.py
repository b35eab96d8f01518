"""Plays one seed of the transactions scenario and prints the digests of its trace and of its history.

Run as a program: two processes with different hash seeds must print the same.
"""

import hashlib
import sys

from semel.verify.scenarios.transactions import Story


def digests(seed: int) -> tuple[str, str]:
    story = Story(seed, traced=True)
    story.run()
    history = hashlib.sha256(repr((story.world.history.events, story.world.history.logs)).encode())
    return story.digest(), history.hexdigest()


if __name__ == "__main__":
    print(*digests(int(sys.argv[1])))
