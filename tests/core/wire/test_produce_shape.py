"""A request is recognised as a plain Produce exactly if the codec reads it as one.

Method: random requests of every version, many of them plain, some cut or with a byte changed; wherever the shape is
recognised, the codec must find the same records in the same place, and it must recognise every plain one.
"""

import random

import pytest

from semel.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.core.wire.produce_shape import FIRST_VERSION, NO_TAGS_BYTES, plain_records
from semel.errors import WireError

START = b"header"
LAST_VERSION = 13


def request(rng: random.Random, *, plain: bool) -> ProduceRequest:
    def topic() -> TopicProduceData:
        partitions = 1 if plain else rng.choice((0, 1, 2))
        return TopicProduceData(
            name="t" * rng.choice((1, 7, 126)) if plain else rng.choice(("", "t", "ü" * 80, "z" * 300)),
            topic_id=rng.randbytes(16),
            partition_data=[
                PartitionProduceData(
                    index=rng.choice((0, 1, 130, 2**31 - 1)),
                    records=rng.randbytes(rng.choice((1, 60, 61, 126, 127, 128, 20_000)))
                    if plain
                    else rng.choice((None, b"", b"x" * 70)),
                )
                for _ in range(partitions)
            ],
        )

    return ProduceRequest(
        transactional_id=None if plain else rng.choice((None, "", "tx")),
        acks=rng.choice((-1, 0, 1)),
        timeout_ms=rng.choice((0, 2, 30_000)),
        topic_data=[topic() for _ in range(1 if plain else rng.choice((0, 1, 2)))],
    )


def framed(message: ProduceRequest, version: int) -> bytearray:
    return bytearray(START + message.encode(version))


def check(frame: bytearray, version: int) -> bool:
    """Whether the shape was recognised; if so, the codec must agree."""
    found = plain_records(frame, version, len(START))
    if found is None:
        return False
    decoded = ProduceRequest.decode(frame, version, len(START))
    assert decoded.transactional_id is None
    ((topic,),) = (decoded.topic_data,)
    ((partition,),) = (topic.partition_data,)
    assert bytes(partition.records or b"") == frame[found[1] : -NO_TAGS_BYTES]
    again = ProduceRequest(
        acks=decoded.acks,
        timeout_ms=decoded.timeout_ms,
        topic_data=[
            TopicProduceData(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_data=[PartitionProduceData(index=partition.index, records=b"other")],
            )
        ],
    )
    assert framed(again, version)[: found[0]] == frame[: found[0]], "the bytes before the records say it all"
    return True


@pytest.mark.parametrize("version", range(FIRST_VERSION, LAST_VERSION + 1))
def test_every_plain_request_is_recognised_and_its_records_found(version: int) -> None:
    rng = random.Random(version)
    for _ in range(50):
        assert check(framed(request(rng, plain=True), version), version)


@pytest.mark.parametrize("version", range(FIRST_VERSION, LAST_VERSION + 1))
def test_nothing_is_recognised_that_the_codec_reads_otherwise(version: int) -> None:
    rng = random.Random(version)
    recognised = 0
    for _ in range(400):
        frame = framed(request(rng, plain=rng.random() < 0.5), version)
        if rng.random() < 0.5:
            frame[rng.randrange(len(START), min(len(frame), 60))] = rng.randrange(256)
        if rng.random() < 0.2:
            del frame[rng.randrange(len(frame)) :]
        try:
            recognised += check(frame, version)
        except WireError:
            # Only a name that is no UTF-8 may be recognised and yet be unreadable: nobody can have learned it.
            topic = frame[len(START) + 8 :]
            with pytest.raises(UnicodeDecodeError):
                topic[1 : topic[0]].decode()
    assert recognised > 50
