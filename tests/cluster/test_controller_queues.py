"""One encoding of UpdateMetadata is every broker's own: only the epoch differs."""

from semel.cluster.controller.queues import SharedUpdate
from semel.core.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)


def test_the_epoch_is_put_where_the_encoding_has_it() -> None:
    request = UpdateMetadataRequest(
        controller_id=7,
        controller_epoch=3,
        broker_epoch=-1,
        topic_states=[UpdateMetadataTopicState(topic_name="t")],
        live_brokers=[UpdateMetadataBroker(id=1, rack=None)],
    )
    shared = SharedUpdate(request)
    bodies = {epoch: shared.body(8, epoch) for epoch in (0, 59, 2**60)}
    for epoch, body in bodies.items():
        request.broker_epoch = epoch
        assert body == request.encode(8)
