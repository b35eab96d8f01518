"""What the client raises must be what Java's client raises: names, parents, codes, and what may be tried again.

Method: a small program prints Kafka's own table of error codes and the classes behind them; ours is held against it. The
translation of inner errors is tried one by one.
"""

import json
import pickle
from pathlib import Path
from typing import Final

import pytest

import semel
from semel import exceptions
from semel.errors import (
    CorruptBatchError,
    DisconnectedError,
    ErrorCode,
    RefusedError,
    RequestTimedOutError,
    SemelError,
)
from semel.exceptions import (
    ApiException,
    ConfigException,
    CorruptRecordException,
    KafkaException,
    NetworkException,
    ProducerFencedException,
    TimeoutException,
    UnknownServerException,
    as_exception,
    exception_for,
)
from semel.peers.kafka import KafkaHome

PROGRAM: Final = str(Path(__file__).parent / "java" / "ErrorTable.java")


@pytest.mark.java
def test_every_code_has_javas_class_and_parents(kafka_home: KafkaHome) -> None:
    for line in kafka_home.run(PROGRAM).splitlines():
        row = json.loads(line)
        ours = exception_for(row["code"], "text")
        assert ours.code == row["code"]
        assert ours.retriable == row["retriable"], row
        assert ErrorCode(row["code"]).retriable == row["retriable"], row
        if type(ours) is ApiException:  # Of what this client never asks.
            continue
        names = [one.__name__ for one in type(ours).__mro__]
        assert names[: names.index("KafkaException") + 1] == row["classes"], row


def test_every_exception_is_a_name_of_the_package() -> None:
    for name, kind in vars(exceptions).items():
        if isinstance(kind, type) and issubclass(kind, KafkaException):
            assert getattr(semel, name) is kind
            assert issubclass(kind, SemelError)


def test_an_unknown_code_and_a_code_without_a_class() -> None:
    assert isinstance(exception_for(9999, "strange"), UnknownServerException)
    only = exception_for(ErrorCode.STALE_BROKER_EPOCH)
    assert type(only) is ApiException
    assert only.code is ErrorCode.STALE_BROKER_EPOCH
    assert str(only) == "STALE_BROKER_EPOCH (77)"


def test_what_an_error_means_can_be_said_where_it_happens() -> None:
    assert (TimeoutException().abortable, TimeoutException(abortable=True).abortable) == (False, True)
    fenced = ProducerFencedException("gone")
    assert (fenced.fatal, fenced.retriable, fenced.code) == (True, False, ErrorCode.PRODUCER_FENCED)


@pytest.mark.parametrize(
    ("inner", "public", "code"),
    [
        (RefusedError(ErrorCode.PRODUCER_FENCED, "x"), ProducerFencedException, ErrorCode.PRODUCER_FENCED),
        (RequestTimedOutError("x"), TimeoutException, ErrorCode.REQUEST_TIMED_OUT),
        (DisconnectedError("x"), NetworkException, ErrorCode.NETWORK_EXCEPTION),
        (CorruptBatchError("x"), CorruptRecordException, ErrorCode.CORRUPT_MESSAGE),
        (semel.errors.ConfigError("x"), ConfigException, ErrorCode.INVALID_CONFIG),
        (semel.errors.LogError("x"), KafkaException, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_an_inner_error_leaves_the_client_under_javas_name(
    inner: SemelError, public: type[KafkaException], code: ErrorCode
) -> None:
    error = as_exception(inner)
    assert type(error) is public
    assert error.code is code
    assert str(error) == str(inner)


def test_a_public_exception_stays_as_it_is() -> None:
    error = ProducerFencedException("x")
    assert as_exception(error) is error


def test_exceptions_cross_processes() -> None:
    copy = pickle.loads(pickle.dumps(TimeoutException("late", abortable=True)))
    assert (str(copy), copy.abortable, copy.retriable) == ("late", True, True)
