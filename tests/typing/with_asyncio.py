"""The same names for asyncio: what blocks elsewhere is awaited here."""

from typing import reveal_type

from semel import aio


async def main() -> None:
    settings = {"bootstrap.servers": "localhost:9092"}
    async with aio.Producer(settings) as producer:
        future = await producer.send("orders", "v")
        reveal_type(future)  # reveals: SendFuture
        producer.send("orders", "not awaited")  # refused: unused-coroutine
        async with producer.transaction() as itself:
            reveal_type(itself)  # reveals: AsyncProducer
        with producer.transaction():  # refused: attr-defined attr-defined
            pass
    async with aio.Consumer(settings) as consumer:
        async for record in consumer:
            reveal_type(record)  # reveals: ConsumerRecord
        reveal_type(await consumer.poll())  # reveals: ConsumerRecords
        reveal_type(await consumer.position(("orders", 0)))  # reveals: int
    async with aio.Admin(settings) as admin:
        reveal_type(await admin.list_topics())  # reveals: Listing[TopicListing]
