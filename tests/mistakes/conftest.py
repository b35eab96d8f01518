"""The broker that every row meets."""

import gc
from collections.abc import Iterator

import pytest

from semel import Broker
from support.client.mistakes_kit import World, a_broker


@pytest.fixture(scope="session")
def patient_broker() -> Iterator[Broker]:
    with a_broker() as broker:
        yield broker


@pytest.fixture
def world(patient_broker: Broker) -> Iterator[World]:
    yield World(patient_broker.bootstrap)
    gc.collect()  # What a row left open is told at this row.
