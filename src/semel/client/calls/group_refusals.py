"""Refusals of a group's coordinator, in words that name the way out."""

from typing import Final

from semel.client.cluster import Cluster
from semel.errors import ErrorCode, RefusedError, error_code, refused
from semel.types import TopicPartition

_GROUP_WIDE: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND}
)


def group_refusal(cluster: Cluster, group_id: str, number: int, what: str) -> RefusedError:
    """The error for an answer about a whole group."""
    code = error_code(number)
    match code:
        case ErrorCode.GROUP_ID_NOT_FOUND:
            text = f"group {group_id} does not exist at {cluster.where}: see 'semel groups list'"
        case ErrorCode.NON_EMPTY_GROUP | ErrorCode.UNKNOWN_MEMBER_ID:
            text = (
                f"group {group_id} at {cluster.where} has members: stop them first, "
                f"'semel groups describe {group_id}' names them"
            )
        case _:
            return refused(number, f"{what} group {group_id}", by=cluster.where)
    return RefusedError(code, text)


def check_partition(cluster: Cluster, group_id: str, where: TopicPartition, number: int, what: str) -> None:
    """Raise the error for an answer about a group's offset in one partition, if it has an error code."""
    if not number:
        return
    if number in _GROUP_WIDE:
        raise group_refusal(cluster, group_id, number, f"{what} offsets of")
    if number == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        raise RefusedError(
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            f"members of group {group_id} at {cluster.where} are subscribed to {where.topic}: stop them first, "
            f"'semel groups describe {group_id}' names them",
        )
    if number == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise RefusedError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{where} does not exist at {cluster.where}, or group {group_id} has no offset there: "
            f"see 'semel offsets show {group_id}'",
        )
    raise refused(number, f"{what} the offset of group {group_id} in {where}", by=cluster.where)
