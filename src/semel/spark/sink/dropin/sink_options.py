"""The options of `format("semel")` for writing: those of Spark's own Kafka connector, and a few more.

Role.   `SinkOptions.of` takes what a user gave to `option(…)` and gives typed values, checked. They travel to the tasks.
Rules.  * Names in any case. Unknown names are refused with the nearest right one; names that Spark itself passes on are accepted.
        * `kafka.KEY` is a setting of our producer. Settings the sink's promise rests on (acks, idempotence, the transactional id,
          serializers) cannot be set.
        * `kafka.transaction.timeout.ms` is 15 minutes unless it is said otherwise, the longest brokers allow by default: a
          transaction stays open until the whole batch is written.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from semel.client.config_keys import ADMIN_KEYS, CONSUMER_KEYS, PRODUCER_KEYS
from semel.client.settings import ProducerConfig
from semel.core.metadata.configs import nearest
from semel.exceptions import IllegalArgumentException
from semel.spark.sink.common.batch_name import target_of
from semel.spark.sink.common.names import DROP_IN_LEDGER_TOPIC
from semel.types import TopicPartition

WRITE_OPTIONS: Final = ("topic", "includeHeaders", "sinkName", "ledgerTopic", "continues")
"""Everything a writer takes beside `kafka.*`. `includeHeaders` is accepted as by Spark's connector: headers go by their column."""
TRANSACTION_TIMEOUT_MS: Final = 15 * 60_000
DEFAULT_CLIENT_ID: Final = "spark-semel-sink"

_CLIENT_PREFIX: Final = "kafka."
_BY_LOWER: Final = {name.lower(): name for name in WRITE_OPTIONS}
_SPARKS_OWN: Final = frozenset(
    {"checkpointlocation", "queryname", "path", "outputmode", "__partition_columns"}
)
_MEANT: Final = {
    "topics": "topic",
    "subscribe": "topic",
    "bootstrap": "kafka.bootstrap.servers",
    "bootstrapservers": "kafka.bootstrap.servers",
    "brokers": "kafka.bootstrap.servers",
    "name": "sinkName",
}
_BYTES: Final = "org.apache.kafka.common.serialization.ByteArraySerializer"
_SINK_DECIDES: Final = {
    "enable.idempotence": "it is always on, exactly-once rests on it",
    "acks": "it is always all, exactly-once rests on it",
    "key.serializer": "give the column key as text or bytes",
    "value.serializer": "give the column value as text or bytes",
}
_DECIDED: Final = {
    "enable.idempotence": ("true",),
    "acks": ("all", "-1"),
    "key.serializer": (_BYTES,),
    "value.serializer": (_BYTES,),
}
"""Values that hold anyway, and may be given."""
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,150}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The settings of a writer."""

    client: Mapping[str, str]
    """Kafka's keys without `kafka.`."""
    topic: str | None = None
    """The topic of all rows, whatever their column says."""
    sink_name: str | None = None
    ledger_topic: str = DROP_IN_LEDGER_TOPIC
    continues: str | None = None
    """The id of the query whose place this one may take."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """The options a user gave; raises `IllegalArgumentException` or `ConfigException` with name, value and way out."""
        given = dict[str, str]()
        for name, value in options.items():
            if name.lower().startswith(_CLIENT_PREFIX) or name.lower() in _SPARKS_OWN:
                continue
            known = _BY_LOWER.get(name.lower())
            if known is None:
                raise _unknown(name)
            given[known] = value
        client = _client(options)
        _take_name(client, given)
        found = cls(
            client=client,
            topic=given.get("topic"),
            sink_name=_name(given, "sinkName"),
            ledger_topic=_name(given, "ledgerTopic") or DROP_IN_LEDGER_TOPIC,
            continues=given.get("continues"),
        )
        found.producer_config("checked")
        return found

    @property
    def subject(self) -> str:
        """The sink in errors, while no batch is known."""
        name = "sink of the query" if self.sink_name is None else f"sink {self.sink_name}"
        return f"{name}, {target_of(self.topic)}"

    @property
    def ledger(self) -> TopicPartition:
        """Where the sink's row is."""
        return TopicPartition(self.ledger_topic, 0)

    def producer_settings(self, transactional_id: str, **more: str) -> dict[str, str]:
        """The settings of a producer with this transactional id."""
        return {
            "client.id": DEFAULT_CLIENT_ID,
            "transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS),
            **self.client,
            "transactional.id": transactional_id,
            **{key.replace("_", "."): value for key, value in more.items()},
        }

    def producer_config(self, transactional_id: str) -> ProducerConfig:
        """The same, typed."""
        return ProducerConfig.of(self.producer_settings(transactional_id))

    def consumer_settings(self, **more: str) -> dict[str, str]:
        """The user's settings that a consumer knows, and `more`."""
        return {
            "client.id": DEFAULT_CLIENT_ID,
            **{key: value for key, value in self.client.items() if key in CONSUMER_KEYS},
            **{key.replace("_", "."): value for key, value in more.items()},
        }

    def admin_settings(self) -> dict[str, str]:
        """The user's settings that an admin client knows."""
        known = {key: value for key, value in self.client.items() if key in ADMIN_KEYS}
        return {"client.id": DEFAULT_CLIENT_ID, **known}


def _client(options: Mapping[str, str]) -> dict[str, str]:
    client = {
        name.lower().removeprefix(_CLIENT_PREFIX): value
        for name, value in options.items()
        if name.lower().startswith(_CLIENT_PREFIX)
    }
    if not client.get("bootstrap.servers"):
        raise IllegalArgumentException(
            "Option 'kafka.bootstrap.servers' must be specified for configuring the sink: the brokers, as host:port,host:port"
        )
    for key, way_out in _SINK_DECIDES.items():
        if key in client and client.pop(key).strip().lower() not in map(str.lower, _DECIDED[key]):
            raise IllegalArgumentException(f"kafka.{key} cannot be set for the drop-in sink: {way_out}")
    return client


def _take_name(client: dict[str, str], given: dict[str, str]) -> None:
    """`kafka.transactional.id` names the sink: its producers' ids begin with that name."""
    transactional_id = client.pop("transactional.id", None)
    if transactional_id is None:
        return
    if given.setdefault("sinkName", transactional_id) != transactional_id:
        raise IllegalArgumentException(
            f"kafka.transactional.id={transactional_id} and sinkName={given['sinkName']} both name the sink: keep one"
        )


def _unknown(name: str) -> IllegalArgumentException:
    lower = name.lower()
    if lower in PRODUCER_KEYS:
        return IllegalArgumentException(
            f"unknown option {name!r}: settings of the client begin with kafka., kafka.{lower}"
        )
    meant = _MEANT.get(lower) or nearest(name, [*WRITE_OPTIONS, "kafka.bootstrap.servers"])
    hint = f": did you mean {meant}?" if meant else f": the sink knows kafka.* and {', '.join(WRITE_OPTIONS)}"
    return IllegalArgumentException(f"unknown option {name!r} of a sink{hint}")


def _name(given: Mapping[str, str], option: str) -> str | None:
    value = given.get(option)
    if value is not None and not _NAME.fullmatch(value):
        raise IllegalArgumentException(
            f"{option}={value!r}: use 1 to 150 letters, digits, dots, underscores and hyphens"
        )
    return value
