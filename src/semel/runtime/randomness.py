"""Sources of randomness: the operating system, or a seed.

Role.   Code that needs randomness gets a `random.Random`. This module makes them, and ids from them.
Rules.  * No code calls the functions of the module `random` itself: they share one hidden state.
        * A simulation gives each part its own dice, derived from the seed and the part's name, so that one part
          drawing more does not change what another one sees.
"""

import random
import uuid


def system_dice() -> random.Random:
    """Unpredictable, from the operating system."""
    return random.SystemRandom()


def seeded_dice(seed: int, *names: str) -> random.Random:
    """The dice of one part of the simulation `seed`; the same for the same names, independent of other parts."""
    text = "/".join((str(seed), *names))  # Seeding with text hashes it by SHA-512, not by the salted `hash`.
    return random.Random(text)


def random_uuid(dice: random.Random) -> uuid.UUID:
    """A random (version 4) id."""
    return uuid.UUID(int=dice.getrandbits(128), version=4)
