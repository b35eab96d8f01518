"""The differences between Semel and Apache Kafka that are meant, each with its reason."""

from typing import Final, NamedTuple

from compat.differential.comparing import ABSENT

ANYTHING: Final = object()


class Known(NamedTuple):
    """Where answers differ (`*` stands for anything), and why that is right."""

    title: str
    path: str
    reason: str
    ours: object = ANYTHING
    """What we answer, where only that is meant."""


KNOWN: Final[tuple[Known, ...]] = (
    Known(
        "*",
        "*configs[min.insync.replicas]*",
        "Kafka's format tool stores min.insync.replicas as a dynamic default of the cluster; nobody set it here",
    ),
    Known(
        "describe configs: every broker's *",
        "results[*].configs",
        "the same: without it the list is empty",
        ours=[],
    ),
    Known(
        "create partitions: too many *",
        "results[quiet].error_code",
        "Kafka runs into a limit of its controller and answers UNKNOWN_SERVER_ERROR; we name the policy",
        ours=44,
    ),
    Known(
        "incremental alter configs: an operation nobody knows *",
        "responses[*].error_code",
        "Kafka answers UNKNOWN_SERVER_ERROR; we say INVALID_REQUEST",
        ours=42,
    ),
    Known(
        "api versions*",
        "api_keys[*]:",
        "security's handshakes, tokens, share and streams groups and telemetry are not served, KRaft's own requests never",
        ours=ABSENT,
    ),
    Known(
        "api versions*",
        "*ed_features*",
        "Kafka also has features of its own metadata, of share groups and of streams groups",
    ),
    Known(
        "produce: a codec nobody knows *",
        "responses[*].partition_responses[0].error_code",
        "Kafka answers UNKNOWN_SERVER_ERROR; we say UNSUPPORTED_COMPRESSION_TYPE",
        ours=76,
    ),
    Known(
        "produce: stamped by the client as by a broker *",
        "responses[odd].partition_responses[0].*",
        "Kafka takes such a batch where the topic keeps the producer's time, and removes the mark; no producer sends it",
    ),
    Known(
        "describe log dirs: *",
        "results[*].topics[odd].partitions[0].partition_size",
        "the same: that batch is not stored",
        ours=0,
    ),
    Known(
        "produce: stamped by the client and the broker *",
        "responses[stamped].partition_responses[0].record_errors*",
        "Kafka lists every record of a batch that claims the broker's time; no producer sends one",
    ),
    Known(
        "fetch: what the broker compressed, too old to read it *",
        "responses[zstd].partitions[0].*",
        "clients of Fetch 9 and older cannot read zstd; Kafka sends it to them, we say UNSUPPORTED_COMPRESSION_TYPE",
    ),
    Known(
        "describe log dirs: *",
        "results[*].topics[zstd].partitions[0].partition_size",
        "the same records in zstd: another library, other bytes",
    ),
    Known(
        "list offsets: of the largest timestamp, after deletion *",
        "topics[orders].partitions[0].*",
        "Kafka names a record that was deleted; we say that there is none",
        ours=-1,
    ),
)
