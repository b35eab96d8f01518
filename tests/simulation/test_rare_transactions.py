"""Two-phase commit, epochs that run out, topics deleted under open transactions: the promises of transactions hold there too.

Method: whole worlds on the simulated runtime, as in `test_transactions`, each with one or more of these.
`test_mutations` breaks the broker on purpose where only these matter: the judgement must notice.
"""

import pytest

from semel.verify.simulation.scenarios import rare_transactions
from support.verify.story_kit import must_be_reproduced, run_random_seeds, run_seeds

_CHUNK = 8
_FIXED = 8
_RANDOM = 4


@pytest.mark.parametrize("first", range(0, _FIXED, _CHUNK))
def test_fixed_seeds(first: int) -> None:
    run_seeds(rare_transactions.run, first, _CHUNK)


def test_random_seeds() -> None:
    run_random_seeds(rare_transactions.run, _RANDOM)


def test_a_run_is_reproduced_to_the_byte_by_its_seed() -> None:
    must_be_reproduced("rare_transactions", 1)
