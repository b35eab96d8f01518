"""Plays one seed of a scenario with a broker and prints the digests of its trace and of its history.

Run as a program, `story_digests.py produce 17`: two processes with different hash seeds must print the same.
"""

import hashlib
import importlib
import sys

from semel.verify.simulation.scenarios.broker_story import BrokerStory


def digests(scenario: str, seed: int) -> tuple[str, str]:
    story: BrokerStory = importlib.import_module(f"semel.verify.simulation.scenarios.{scenario}").Story(
        seed, traced=True
    )
    story.run()
    history = hashlib.sha256(repr((story.world.history.events, story.world.history.logs)).encode())
    return story.digest(), history.hexdigest()


if __name__ == "__main__":
    print(*digests(sys.argv[1], int(sys.argv[2])))
