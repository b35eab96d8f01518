"""ApiVersions must be right for clients of every age: it is the first thing they ask.

Method: the answer for each version, for one from the future, and beside the recorded answers of Apache Kafka 4.3.1.
"""

import gzip
import json
from pathlib import Path

import pytest

from semel.core.wire.api_versions import Features, ServedApi, advertised, api_versions_response
from semel.core.wire.framing import response_frame
from semel.core.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode
from semel.peers.kafka import KafkaHome

FEATURES = Features(
    supported={"group.version": (0, 1), "metadata.version": (7, 27), "transaction.version": (0, 2)},
    finalized={"group.version": 1, "share.version": 0, "transaction.version": 2},
    finalized_epoch=5,
)


@pytest.mark.parametrize("version", range(5))
def test_every_version_lists_what_is_served(version: int) -> None:
    response, answered = api_versions_response(version, advertised(), FEATURES)
    assert answered == version
    read = ApiVersionsResponse.decode(response.encode(answered), answered)
    rows = {row.api_key: (row.min_version, row.max_version) for row in read.api_keys}
    assert rows[ApiKey.PRODUCE] == (0, 13)
    assert rows[ApiKey.INIT_PRODUCER_ID] == (0, 5)
    assert list(rows) == sorted(rows)
    assert {one.name for one in read.finalized_features} == (
        {"group.version", "transaction.version"} if version >= 3 else set()
    )


def test_features_that_may_be_off_are_hidden_from_clients_before_version_4() -> None:
    names = {}
    for version in (3, 4):
        response, _ = api_versions_response(version, advertised(), FEATURES)
        names[version] = [one.name for one in response.supported_features]
    assert names == {3: ["metadata.version"], 4: ["group.version", "metadata.version", "transaction.version"]}


def test_a_feature_at_level_0_is_not_finalized() -> None:
    response, _ = api_versions_response(4, advertised(), FEATURES)
    levels = {one.name: (one.min_version_level, one.max_version_level) for one in response.finalized_features}
    assert levels == {"group.version": (1, 1), "transaction.version": (2, 2)}
    assert response.finalized_features_epoch == 5


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_an_unknown_version_is_answered_in_version_0_with_error_35(version: int) -> None:
    """PROTOCOL trap 30: the client learns the range and asks again on the same connection."""
    response, answered = api_versions_response(version, advertised(), FEATURES)
    frame = response_frame(9, response, answered)
    assert frame.hex() == "00000010" + "00000009" + "0023" + "00000001" + "001200000004"


@pytest.mark.java
def test_kafka_answers_an_unknown_version_with_the_same_bytes(kafka_home: KafkaHome, tmp_path: Path) -> None:
    """Kafka's own request class makes the answer; ours is the same to the byte."""
    program = tmp_path / "Unknown.java"
    program.write_text(
        """
        import java.util.HexFormat;
        import org.apache.kafka.common.message.ApiVersionsRequestData;
        import org.apache.kafka.common.protocol.*;
        import org.apache.kafka.common.requests.ApiVersionsRequest;
        public class Unknown {
            public static void main(String[] arguments) {
                var request = new ApiVersionsRequest(new ApiVersionsRequestData(), (short) 0, (short) 99);
                var answer = request.getErrorResponse(0, Errors.UNSUPPORTED_VERSION.exception());
                var buffer = MessageUtil.toByteBufferAccessor(answer.data(), (short) 0).buffer();
                byte[] bytes = new byte[buffer.remaining()];
                buffer.get(bytes);
                System.out.println(request.hasUnsupportedRequestVersion() + " " + HexFormat.of().formatHex(bytes));
            }
        }
        """
    )
    response, answered = api_versions_response(99, advertised(), FEATURES)
    assert kafka_home.run(str(program)).split() == ["true", response.encode(answered).hex()]


@pytest.mark.parametrize("version", [3, 4])
def test_given_kafkas_rows_and_features_the_bytes_are_kafkas(version: int) -> None:
    """A recorded answer, taken apart and built again by our function from what a broker knows."""
    golden = Path(__file__).parent / "golden" / "frames-4.3.1.jsonl.gz"
    rows = [json.loads(line) for line in gzip.decompress(golden.read_bytes()).splitlines()]
    recorded = {
        row["version"]: bytes.fromhex(row["frame"])
        for row in rows
        if row["key"] == 18 and row["kind"] == "response"
    }
    newest = ApiVersionsResponse.decode(recorded[4], 4, position=4)
    features = Features(
        supported={one.name: (one.min_version, one.max_version) for one in newest.supported_features},
        finalized={one.name: one.max_version_level for one in newest.finalized_features},
        finalized_epoch=newest.finalized_features_epoch,
    )
    served = [ServedApi(row.api_key, row.min_version, row.max_version) for row in newest.api_keys]
    ours, _ = api_versions_response(version, served, features)
    theirs = ApiVersionsResponse.decode(recorded[version], version, position=4)
    theirs.finalized_features_epoch = newest.finalized_features_epoch  # It moves between two requests.
    assert ours.encode(version) == theirs.encode(version)


@pytest.mark.parametrize(("name", "valid"), [("semel", True), ("apache-kafka-java", True), ("a", True), ("", False), ("-a", False), ("a b", False), ("a\n", False)])  # fmt: skip
def test_software_names_must_have_kafkas_form_from_version_3(name: str, valid: bool) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1.0")
    response, answered = api_versions_response(3, advertised(), request=request)
    assert answered == 3
    assert response.error_code == (ErrorCode.NONE if valid else ErrorCode.INVALID_REQUEST)
    assert bool(response.api_keys) == valid
    older, _ = api_versions_response(2, advertised(), request=request)
    assert older.error_code == ErrorCode.NONE


def test_the_throttle_time_and_the_migration_flag_are_carried() -> None:
    response, _ = api_versions_response(
        4, advertised(), FEATURES, throttle_time_ms=7, zk_migration_ready=True
    )
    read = ApiVersionsResponse.decode(response.encode(4), 4)
    assert (read.throttle_time_ms, read.zk_migration_ready) == (7, True)
