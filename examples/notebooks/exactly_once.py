# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Exactly once, in ten minutes
#
# This notebook sends orders to a log, reads them, and computes from them. A crash in the middle changes nothing: every order is counted
# once. It needs `pip install semel` and nothing else; the broker runs inside this process.
#
# The cells are the text of `examples/notebooks/exactly_once.py`. `make notebooks` runs them and writes the notebook with its outputs.

# %%
import pyarrow as pa
import pyarrow.compute as pc

from semel import Admin, Broker, Consumer, NewTopic, Producer

broker = Broker().start()
with Admin(bootstrap_servers=broker.bootstrap) as admin:
    admin.create_topics([NewTopic("orders", 3), NewTopic("totals", 1)])
    names = sorted(topic.name for topic in admin.list_topics())
names

# %% [markdown]
# ## A table is sent
#
# `send_arrow` takes a table. Its columns `key` and `value` become records. The producer is idempotent without a setting: a retry of a
# request whose answer was lost is stored once.

# %%
customers = ["ann", "bob", "eve"]
orders = pa.table(
    {
        "key": [customers[number % 3] for number in range(3000)],
        "value": [str(number % 7) for number in range(3000)],
    }
)
with Producer(bootstrap_servers=broker.bootstrap) as producer:
    producer.send_arrow("orders", orders).result()
print(f"{orders.num_rows} orders sent")

# %% [markdown]
# ## A transaction is all or nothing
#
# The first transaction is committed, the second one fails and is aborted. A consumer reads committed records, unless it is told otherwise.

# %%
with Producer(bootstrap_servers=broker.bootstrap, transactional_id="shop") as producer:
    producer.init_transactions()
    with producer.transaction():
        producer.send("orders", key="ann", value="100")
        producer.send("orders", key="bob", value="100")
    try:
        with producer.transaction():
            producer.send("orders", key="eve", value="1000000")
            raise ValueError("eve's card is refused")
    except ValueError as error:
        print(f"aborted: {error}")

# %% [markdown]
# ## Reading gives a table again


# %%
def read(topic: str, **settings: str) -> pa.Table:
    """Every record of a topic that is there now."""
    with Consumer(bootstrap_servers=broker.bootstrap, **settings) as consumer:
        partitions = [(topic, one.partition) for one in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        batches = []
        while any(consumer.position(where) < end for where, end in ends.items()):
            batches.append(consumer.poll_arrow(timeout_ms=1000))
        return pa.Table.from_batches(batches)


committed = read("orders")
everything = read("orders", isolation_level="read_uncommitted")
print(f"committed: {committed.num_rows}, with the aborted one: {everything.num_rows}")

# %% [markdown]
# ## A computation that crashes
#
# A worker reads orders, adds them up by customer, and writes the sums. The sums and the position of the worker go into one transaction.
# The first worker is stopped before its commit, as by a crash. The second worker begins where the last commit was: at the beginning.


# %%
def add_up(*, crashes: bool) -> str:
    """One worker's life: sums of all orders that are there, written with the worker's position."""
    settings = {"bootstrap.servers": broker.bootstrap}
    group = {"group.id": "sums", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with (
        Consumer({**settings, **group}) as consumer,
        Producer({**settings, "transactional.id": "sums-1"}) as producer,
    ):
        consumer.subscribe(["orders"])
        rows = 0
        sums: dict[str, int] = {}
        while rows < 3002:
            batch = consumer.poll_arrow(timeout_ms=1000)
            values = pc.cast(pc.cast(batch["value"], pa.string()), pa.int64())
            table = pa.table({"key": pc.cast(batch["key"], pa.string()), "value": values})
            for row in table.group_by("key").aggregate([("value", "sum")]).to_pylist():
                sums[row["key"]] = sums.get(row["key"], 0) + row["value_sum"]
            rows += batch.num_rows
        producer.init_transactions()
        producer.begin_transaction()
        for key, value in sorted(sums.items()):
            producer.send("totals", key=key, value=str(value))
        producer.send_offsets_to_transaction(consumer.consumed(), consumer.group_metadata())
        producer.flush()
        if crashes:
            return f"stopped after {rows} orders, before the commit"
        producer.commit_transaction()
        return f"committed after {rows} orders"


print(add_up(crashes=True))
print(add_up(crashes=False))

# %% [markdown]
# ## Each order was counted once
#
# The sums of the first worker are in the log, but they were never committed: no reader sees them.

# %%
totals = read("totals")
found = {row["key"].decode(): int(row["value"]) for row in totals.select(["key", "value"]).to_pylist()}
found

# %%
expected = {
    name: sum(number % 7 for number in range(3000) if number % 3 == place)
    for place, name in enumerate(customers)
}
expected["ann"] += 100
expected["bob"] += 100
assert found == expected
print("as computed from the orders alone")

# %% [markdown]
# `broker.stop()` removes the temporary data. With `Broker(data_dir="data")` it stays. Next: [the guide](../../docs/guide.md), and
# [testing](../../docs/testing.md) with the pytest plugin.

# %%
broker.stop()
