"""A broker in a simulation whose metrics are shown, and a client that sends it whatever batches a story wants."""

from collections.abc import Awaitable, Callable

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.core.records.build import RecordInput, build_batch
from semel.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.errors import ErrorCode
from semel.net.connection import connect
from semel.runtime.bundle import Runtime
from support.broker.admin_kit import PORT, SETTINGS, Client
from support.broker.prometheus_kit import Page, Scrape, read_page
from support.net.net_worlds import in_simulation, raw_client

METRICS_PORT = 9404


class Watched(Client):
    """A client of a broker whose metrics are shown."""

    runtime: Runtime

    async def page_text(self) -> str:
        scraper = await raw_client(self.runtime, ("127.0.0.1", METRICS_PORT))
        scraper.transport.write(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
        await scraper.lost.wait()
        head, _, body = bytes(scraper.received).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"Content-Length: %d" % len(body) in head
        return body.decode()

    async def page(self) -> Page:
        return read_page(await self.page_text())

    async def scrape(self) -> Scrape:
        return Scrape(self.runtime.clock.monotonic(), await self.page())

    async def send(
        self,
        topic: str,
        *,
        sequence: int = -1,
        producer_id: int = 7,
        epoch: int = 0,
        acks: int = -1,
        records: int = 1,
        partition: int = 0,
    ) -> ErrorCode:
        """One batch, of an idempotent producer if it has a sequence."""
        numbered = sequence >= 0
        data = build_batch(
            [RecordInput(b"k", b"v", 1)] * records,
            producer_id=producer_id if numbered else -1,
            producer_epoch=epoch if numbered else -1,
            base_sequence=sequence,
        )
        wanted = TopicProduceData(
            name=topic, partition_data=[PartitionProduceData(index=partition, records=data)]
        )
        answer = await self.ask(ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[wanted]), 12)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def watched(story: Callable[[Watched], Awaitable[None]], **settings: str) -> None:
    async def tell(runtime: Runtime) -> None:
        given = {**SETTINGS, **{key.replace("_", "."): value for key, value in settings.items()}}
        broker = Broker(BrokerConfig.of(given), runtime, metrics=("127.0.0.1", METRICS_PORT))
        await broker.start()
        assert broker.metrics_url is not None
        assert broker.metrics_url.endswith(f":{METRICS_PORT}/metrics")
        connection = await connect(runtime, "127.0.0.1", PORT)
        client = Watched(broker, None, connection)  # type: ignore[arg-type]  # nobody looks at the disk here
        client.runtime = runtime
        await story(client)
        connection.close()
        await broker.stop()

    in_simulation(tell)
