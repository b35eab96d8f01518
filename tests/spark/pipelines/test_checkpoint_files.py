"""What Spark planned for a micro-batch, as its checkpoint says it.

Method: texts as Spark 4 writes them below `offsets/`, without Spark.
"""

import pytest

from semel.spark.pipelines.checkpoint_files import ends_of
from semel.spark.pipelines.errors import PipelineError

WHERE = "checkpoint/offsets/4"


def planned(*sources: str, version: str = "v1") -> str:
    return "\n".join([version, '{"batchWatermarkMs":0}', *sources])


def test_the_ends_of_all_sources_are_put_together() -> None:
    text = planned('{"orders":{"0":7,"1":9}}', "-", '{"logOffset":0}', '{"payments":{"0":3}}')
    assert ends_of(text, WHERE) == {"orders": {0: 7, 1: 9}, "payments": {0: 3}}


def test_one_stream_that_is_used_twice_has_one_position() -> None:
    assert ends_of(planned('{"orders":{"0":7}}', '{"orders":{"0":7}}'), WHERE) == {"orders": {0: 7}}


def test_sources_may_share_the_partitions_of_a_topic_among_them() -> None:
    assert ends_of(planned('{"orders":{"0":7}}', '{"orders":{"1":9}}'), WHERE) == {"orders": {0: 7, 1: 9}}


@pytest.mark.parametrize("other", ['{"orders":{"0":8,"1":9}}', '{"orders":{"0":7}}'])
def test_two_positions_in_one_topic_are_refused(other: str) -> None:
    with pytest.raises(PipelineError, match=r"two sources read topic orders.*offsets/4.*Read the topic once"):
        ends_of(planned('{"orders":{"0":7,"1":9}}', other), WHERE)


def test_another_version_is_refused() -> None:
    with pytest.raises(PipelineError, match=r"offsets/4 has version v2, v1 is known"):
        ends_of(planned('{"orders":{"0":7}}', version="v2"), WHERE)
