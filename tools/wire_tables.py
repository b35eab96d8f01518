"""Write `src/semel/core/wire/messages/*.py` from the message definitions in Apache Kafka's jars.

Usage.  python tools/wire_tables.py DIRECTORY_OF_KAFKA_JARS TARGET_DIRECTORY

Role.   The tables are facts: names, types, versions, defaults. They are generated once per Kafka release and then
        read, reviewed and tested like any other source (`tests/core/wire/test_tables.py` compares them with the jar).
        What a version means beyond its fields is written here, in `NOTES`, because the definitions leave it to prose.
"""

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

Json = dict[str, Any]

# What the API is for, and what a version changed that its fields do not show.
SUMMARIES: dict[int, str] = {
    0: "Produce: append record batches to partitions.",
    1: "Fetch: record batches from partitions, for consumers and followers.",
    2: "ListOffsets: the offset that belongs to a timestamp, to the earliest or to the latest record.",
    3: "Metadata: brokers, topics, partitions and their leaders.",
    8: "OffsetCommit: a group's positions, stored.",
    9: "OffsetFetch: a group's positions, read back.",
    10: "FindCoordinator: which broker coordinates a group or a transactional id.",
    11: "JoinGroup: enter a classic group's next generation.",
    12: "Heartbeat: a classic group's member is alive.",
    13: "LeaveGroup: members leave a classic group.",
    14: "SyncGroup: the leader hands in the assignment, every member gets its part.",
    15: "DescribeGroups: state and members of classic groups.",
    16: "ListGroups: the groups a broker coordinates.",
    17: "SaslHandshake: agree on a SASL mechanism.",
    18: "ApiVersions: which APIs, versions and features a broker has. `core.wire.api_versions` builds the answer.",
    19: "CreateTopics: new topics.",
    20: "DeleteTopics: topics to remove.",
    21: "DeleteRecords: move partitions' log start offsets forward.",
    22: "InitProducerId: a producer id and epoch; with a transactional id, fence its former owner.",
    23: "OffsetForLeaderEpoch: where a leader epoch ends.",
    24: "AddPartitionsToTxn: partitions join a transaction, or a broker verifies that they did.",
    25: "AddOffsetsToTxn: a group's offsets join a transaction.",
    26: "EndTxn: commit or abort.",
    27: "WriteTxnMarkers: the coordinator has leaders write transaction markers.",
    28: "TxnOffsetCommit: offsets that become a group's when the transaction commits.",
    29: "DescribeAcls: access rules that match a filter.",
    30: "CreateAcls: new access rules.",
    31: "DeleteAcls: remove access rules that match filters.",
    32: "DescribeConfigs: settings of topics, brokers and groups with where they come from.",
    33: "AlterConfigs: replace all settings of a resource (IncrementalAlterConfigs changes single ones).",
    34: "AlterReplicaLogDirs: move replicas between a broker's data directories.",
    35: "DescribeLogDirs: what a broker's data directories hold.",
    36: "SaslAuthenticate: one step of a SASL exchange.",
    37: "CreatePartitions: more partitions for topics.",
    42: "DeleteGroups: remove empty groups.",
    43: "ElectLeaders: make preferred (or any live) replicas leaders.",
    44: "IncrementalAlterConfigs: set, delete, append to or subtract from single settings.",
    45: "AlterPartitionReassignments: start or cancel moves of partitions between brokers.",
    46: "ListPartitionReassignments: moves under way.",
    47: "OffsetDelete: forget a group's offsets of some partitions.",
    48: "DescribeClientQuotas: quotas that match a filter.",
    49: "AlterClientQuotas: set or remove quotas.",
    50: "DescribeUserScramCredentials: which SCRAM credentials users have.",
    51: "AlterUserScramCredentials: set or remove SCRAM credentials.",
    57: "UpdateFeatures: move finalized feature levels.",
    60: "DescribeCluster: id, controller and brokers.",
    61: "DescribeProducers: the producers a partition remembers.",
    65: "DescribeTransactions: state and partitions of transactional ids.",
    66: "ListTransactions: the transactions a broker coordinates.",
    68: "ConsumerGroupHeartbeat: membership and assignment of KIP-848 groups.",
    69: "ConsumerGroupDescribe: state and members of KIP-848 groups.",
    74: "ListConfigResources: names of resources that have settings.",
    75: "DescribeTopicPartitions: topics' partitions, page by page.",
}
NOTES: dict[int, dict[int, str]] = {
    0: {
        4: "the broker may answer KAFKA_STORAGE_ERROR",
        6: "throttled clients delay themselves",
        7: "zstd batches are allowed",
        11: "the broker may answer TRANSACTION_ABORTABLE",
        12: "adds the partition to the transaction by itself (transactions v2)",
    },
    1: {
        6: "the broker may answer KAFKA_STORAGE_ERROR",
        8: "throttled clients delay themselves",
        10: "zstd batches may be returned",
        14: "the broker may answer OFFSET_MOVED_TO_TIERED_STORAGE",
    },
    2: {
        3: "throttled clients delay themselves",
        5: "the broker may answer OFFSET_NOT_AVAILABLE",
        7: "timestamp -3: the offset of the highest timestamp",
        8: "timestamp -4: the earliest offset on local disk",
        9: "timestamp -5: the latest offset in remote storage",
        11: "timestamp -6: the earliest offset waiting for upload",
    },
    3: {
        6: "throttled clients delay themselves",
        12: "topics may be asked for by id",
    },
    8: {
        4: "throttled clients delay themselves",
        9: "members of KIP-848 groups may commit; STALE_MEMBER_EPOCH, GROUP_ID_NOT_FOUND",
    },
    9: {
        4: "throttled clients delay themselves",
    },
    10: {
        2: "throttled clients delay themselves",
        5: "the broker may answer TRANSACTION_ABORTABLE",
        6: "share groups' coordinators may be asked for",
    },
    11: {
        3: "throttled clients delay themselves",
        4: "a member without id is sent away with MEMBER_ID_REQUIRED",
    },
    12: {2: "throttled clients delay themselves"},
    13: {2: "throttled clients delay themselves"},
    14: {2: "throttled clients delay themselves"},
    15: {2: "throttled clients delay themselves"},
    16: {2: "throttled clients delay themselves"},
    17: {1: "tokens travel in SaslAuthenticate, not as bare frames"},
    18: {
        2: "throttled clients delay themselves",
        4: "features that may be at level 0 are listed too",
    },
    19: {
        3: "throttled clients delay themselves",
        4: "partition count and replication factor may be -1: the broker's defaults",
        6: "the broker may answer THROTTLING_QUOTA_EXCEEDED",
    },
    20: {
        2: "throttled clients delay themselves",
        3: "the broker may answer TOPIC_DELETION_DISABLED",
        5: "the broker may answer THROTTLING_QUOTA_EXCEEDED",
    },
    21: {1: "throttled clients delay themselves"},
    22: {
        1: "throttled clients delay themselves",
        4: "the broker may answer PRODUCER_FENCED",
        5: "the broker may answer TRANSACTION_ABORTABLE",
        6: "two-phase commit (KIP-939); not advertised unless switched on",
    },
    24: {
        1: "throttled clients delay themselves",
        2: "the broker may answer PRODUCER_FENCED",
        4: "only brokers send it: several transactions in one request, and verification",
        5: "the broker may answer TRANSACTION_ABORTABLE",
    },
    25: {
        1: "throttled clients delay themselves",
        2: "the broker may answer PRODUCER_FENCED",
        4: "the broker may answer TRANSACTION_ABORTABLE",
    },
    26: {
        1: "throttled clients delay themselves",
        2: "the broker may answer PRODUCER_FENCED",
        4: "the broker may answer TRANSACTION_ABORTABLE",
        5: "bumps the epoch (transactions v2)",
    },
    28: {
        1: "throttled clients delay themselves",
        3: "members are fenced by generation (KIP-447)",
        4: "the broker may answer TRANSACTION_ABORTABLE",
        5: "adds the group to the transaction by itself (transactions v2)",
    },
    29: {3: "resources of type user"},
    30: {3: "resources of type user"},
    31: {3: "resources of type user"},
    32: {2: "throttled clients delay themselves"},
    33: {1: "throttled clients delay themselves"},
    37: {
        1: "throttled clients delay themselves",
        3: "the broker may answer THROTTLING_QUOTA_EXCEEDED",
    },
    42: {1: "throttled clients delay themselves"},
}

_GROUP_ROWS = ("Metadata", "MemberMetadata", "TargetAssignmentMetadata", "TargetAssignmentMember",
               "CurrentMemberAssignment", "RegularExpression", "PartitionMetadata")  # fmt: skip
# Messages that are no requests: what stands in records of internal topics, and inside other messages' bytes.
ROWS: dict[str, list[str]] = {
    "consumer_protocol": ["ConsumerProtocolSubscription", "ConsumerProtocolAssignment"],
    "group_rows": [
        *("OffsetCommitKey", "OffsetCommitValue", "GroupMetadataKey", "GroupMetadataValue"),
        *(f"ConsumerGroup{row}{half}" for row in _GROUP_ROWS for half in ("Key", "Value")),
    ],
    "transaction_rows": ["TransactionLogKey", "TransactionLogValue"],
}
ROW_HEADERS = {
    "consumer_protocol": """What members of a classic group tell each other inside JoinGroup and SyncGroup.

The bytes start with the version as int16. Subscription: 1 adds owned_partitions, 2 generation_id, 3 rack_id.""",
    "group_rows": """Rows of __consumer_offsets: committed offsets, classic groups, KIP-848 groups.

A record's key starts with the row's number (`key=` below) as int16, its value with its version as int16. Keys have
version 0 only. Offsets stand under two numbers: 0 is the older one, with the same key.""",
    "transaction_rows": """Rows of __transaction_state: what the coordinator knows of a transactional id.

A record's key starts with 0 as int16, its value with its version as int16. Version 1 (flexible) carries the fields
of transactions v2 as tagged fields.""",
}

TYPES = {
    "bool": "Bool", "int8": "Int8", "int16": "Int16", "int32": "Int32", "int64": "Int64", "float64": "Float64",
    "uuid": "Uuid", "string": "String", "bytes": "Bytes", "records": "Records",
}  # fmt: skip
ZERO = {
    "bool": "False",
    "string": '""',
    "bytes": 'b""',
    "uuid": "ZERO_UUID",
    "float64": "0.0",
    "records": 'b""',
}


def definitions(jar: Path) -> dict[str, Json]:
    """The definitions in a jar, by message name. They are JSON with comment lines."""
    found = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"common/message/\w+\.json", name):
                text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE)
                definition = json.loads(text)
                found[definition["name"]] = definition
    return found


def snake(name: str) -> str:
    """Kafka's name of a field in our spelling."""
    name = name.replace("Enable2Pc", "Enable_2pc")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower().replace("__", "_")


def span(text: str | None) -> tuple[int, int]:
    """First and last version; empty if the last is lower."""
    if text is None or text == "none":
        return 0, -1
    if text.endswith("+"):
        return int(text[:-1]), 0x7FFF
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def within(text: str | None, outer: tuple[int, int]) -> tuple[int, int]:
    first, last = span(text)
    return max(first, outer[0]), min(last, outer[1])


def versions_of(field: Json) -> str:
    """A tagged field may leave its versions out."""
    return str(field.get("versions") or field["taggedVersions"])


def spelled(versions: tuple[int, int], outer: tuple[int, int]) -> str:
    first, last = versions
    if last == outer[1]:
        return f"{first}+"
    return f"{first}" if first == last else f"{first}-{last}"


class Table:
    """One file: the structs of a request and its response, leaves first."""

    def __init__(self, classes: dict[str, str], taken: dict[str, str]) -> None:
        self.used: set[str] = set()
        self.classes = classes
        self.taken = taken

    def struct_name(self, name: str, message: Json, fields: list[Json]) -> str:
        """Kafka's name; prefixed where two messages of a file use one name for different structs."""
        shape = json.dumps([{k: v for k, v in field.items() if k != "about"} for field in fields])
        if self.taken.setdefault(name, shape) == shape:
            return name
        return str(message["name"]) + name

    def emit_struct(self, name: str, fields: list[Json], message: Json, outer: tuple[int, int]) -> str:
        title = self.struct_name(name, message, fields)
        lines = self.lines(fields, message, outer)
        if title not in self.classes:
            self.used.add("Struct")
            self.classes[title] = f"class {title}(Struct):\n" + "\n".join(lines)
        return title

    def lines(self, fields: list[Json], message: Json, outer: tuple[int, int]) -> list[str]:
        return [f"    {line}" for field in fields if (line := self.line(field, message, outer))]

    def line(self, field: Json, message: Json, outer: tuple[int, int]) -> str:
        versions = within(versions_of(field), outer)
        if versions[1] < versions[0]:
            return ""
        kind = field["type"]
        is_array = kind.startswith("[]")
        base = kind.removeprefix("[]")
        if base in TYPES:
            annotation = TYPES[base]
            self.used.add(annotation)
        else:
            fields = field.get("fields")
            if fields is None:
                fields = next(one["fields"] for one in message["commonStructs"] if one["name"] == base)
            annotation = self.emit_struct(base, fields, message, versions)
        null = within(field.get("nullableVersions"), versions)
        nullable = null[1] >= null[0]
        tagged_struct = "tag" in field and not is_array and base not in TYPES
        if is_array:
            annotation = f"list[{annotation}]"
        default = self.default(field, is_array, base)
        if nullable or tagged_struct:
            annotation += " | None"
        options = []
        if "tag" in field:
            options.append(f"tag={field['tag']}")
        if nullable and (null != versions or tagged_struct):
            options.append(f'null="{spelled(null, outer)}"')
        everywhere = versions == outer and not options
        if field.get("ignorable") and versions != outer:
            options.append("ignorable=True")
        name, written = snake(field["name"]), spelled(versions, outer)
        if is_array and default != "None":
            self.used.add("array")
            arguments = ([] if versions == outer else [f'"{written}"']) + options
            return f"{name}: {annotation} = array({', '.join(arguments)})"
        if base not in TYPES and not is_array and default != "None":
            self.used.add("struct")
            arguments = [annotation.removesuffix(" | None"), *options]
            return f"{name}: {annotation} = struct({', '.join(arguments)})"
        if default == "ZERO_UUID":
            self.used.add("ZERO_UUID")
        if everywhere:
            return f"{name}: {annotation} = {default}"
        self.used.add("at")
        arguments = [f'"{written}"', default, *options]
        return f"{name}: {annotation} = at({', '.join(arguments)})"

    @staticmethod
    def default(field: Json, is_array: bool, base: str) -> str:
        given = field.get(
            "default"
        )  # JSON's null is no default, the text "null" is one: so Kafka's generator reads it.
        value = None if given is None else str(given)
        tagged_struct = "tag" in field and not is_array and base not in TYPES
        if value == "null" or (tagged_struct and "nullableVersions" not in field):
            return "None"
        if is_array or base not in TYPES:
            return "new"
        if base == "records" and value is None and field.get("nullableVersions"):
            return "None"
        if value is None:
            return ZERO.get(base, "0")
        if base == "string":
            return f'"{value}"'
        if base == "bool":
            return "True" if value.lower() == "true" else "False"
        number = int(value, 0)
        return {2**63 - 1: "0x7FFFFFFFFFFFFFFF", 2**31 - 1: "0x7FFFFFFF"}.get(number, str(number))


def changes(message: Json) -> dict[int, list[str]]:
    """Which fields a version adds or drops, for the header of the file."""
    valid = span(message["validVersions"])
    found: dict[int, list[str]] = {}

    def walk(fields: list[Json], outer: tuple[int, int]) -> None:
        for field in fields:
            versions = within(versions_of(field), outer)
            if versions[1] < versions[0]:
                continue
            if versions[0] > outer[0]:
                found.setdefault(versions[0], []).append("+" + snake(field["name"]))
            if versions[1] < outer[1]:
                found.setdefault(versions[1] + 1, []).append("-" + snake(field["name"]))
            walk(field.get("fields", []), versions)
            for common in message.get("commonStructs", []):
                if common["name"] == field["type"].removeprefix("[]"):
                    walk(common["fields"], versions)

    walk(message["fields"], valid)
    return found


def header(request: Json, response: Json) -> str:
    key = request["apiKey"]
    first, last = span(request["validVersions"])
    flexible = span(request["flexibleVersions"])
    how = f"flexible from {flexible[0]}" if flexible[1] >= flexible[0] else "none of them flexible"
    versions = f"Version {first}" if first == last else f"Versions {first}-{last}"
    lines = [SUMMARIES[key], "", f"API key {key}. {versions}, {how}."]
    changed = {"request": changes(request), "response": changes(response)}
    for version in range(first + 1, last + 1):
        parts = [
            f"{kind} {', '.join(dict.fromkeys(found[version]))}"
            for kind, found in changed.items()
            if version in found
        ]
        if version == flexible[0]:
            parts.append("flexible")
        if note := NOTES.get(key, {}).get(version):
            parts.append(note)
        lines.append(f"    {version:<2} {'; '.join(parts) or 'as before'}")
    return "\n".join(_wrapped(line) for line in lines)


def _wrapped(line: str, width: int = 108) -> str:
    out = []
    while len(line) > width:
        cut = line.rindex(" ", 0, width)
        out.append(line[:cut])
        line = " " * 7 + line[cut + 1 :]
    return "\n".join([*out, line])


def module(docstring: str, messages: list[Json], bases: set[str]) -> str:
    """The text of one file of messages."""
    table = Table({}, {})
    bodies = []
    for message in messages:
        lines = table.lines(message["fields"], message, span(message["validVersions"]))
        key = f"key={message['apiKey']}, " if "apiKey" in message else ""
        valid, flexible = message["validVersions"], message["flexibleVersions"]
        base = {
            "request": f'Request["{message["name"].removesuffix("Request")}Response"]',
            "response": "Response",
        }.get(message["type"], "Row")
        head = f'class {message["name"]}({base}, {key}versions="{valid}", flexible="{flexible}"):'
        bodies += [*table.classes.values(), head + "\n" + ("\n".join(lines) or "    pass")]
        table.classes = {}
    return assemble(docstring, table, bodies, bases)


def assemble(docstring: str, table: Table, bodies: list[str], bases: set[str]) -> str:
    seen: dict[str, None] = dict.fromkeys(bodies)
    imports = f"from semel.core.wire.message import {', '.join(sorted(bases))}\n"
    if "ZERO_UUID" in table.used:
        imports += "from semel.core.wire.primitives import ZERO_UUID\n"
        table.used.discard("ZERO_UUID")
    if table.used:
        imports += f"from semel.core.wire.schema import {', '.join(sorted(table.used))}\n"
    return f'"""{docstring}\n"""\n\n{imports}\n\n' + "\n\n\n".join(seen) + "\n"


def main() -> None:
    lib, target = Path(sys.argv[1]), Path(sys.argv[2])
    found: dict[str, Json] = {}
    for jar in sorted(lib.glob("kafka-*.jar")):
        found |= definitions(jar)
    for key in SUMMARIES:
        (request,) = (one for one in found.values() if one.get("apiKey") == key and one["type"] == "request")
        response = found[request["name"].removesuffix("Request") + "Response"]
        name = snake(request["name"].removesuffix("Request"))
        text = module(header(request, response), [request, response], {"Request", "Response"})
        (target / f"{name}.py").write_text(text, encoding="utf-8")
    for name, messages in ROWS.items():
        text = module(ROW_HEADERS[name], [found[one] for one in messages], {"Row"})
        (target / f"{name}.py").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
