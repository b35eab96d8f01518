"""Requests of the client side, one module per RPC. Internal: users call `semel.Producer`, `semel.Consumer` and `semel.Admin`.

Role.   A call builds its request, sends it where it belongs (any broker, the controller, coordinators, leaders), and turns the
        answer into plain values. A refusal becomes a `RefusedError` that names the thing and the cluster.
Flow.   Producer, consumer, admin client, commands and Spark's parts make these calls over a `Cluster`.
Rules.  * A call knows no producer, no consumer and no admin client.
        * A call that only asks is repeated while errors pass. An order is repeated only where the answer proves that nothing was
          done. A call of one attempt says so; its caller decides about the next one.
        * Times are milliseconds since 1970; -1 is Kafka's "unknown" and becomes None.
Elsewhere. Requests that one part alone makes are beside it: Produce in `producer`, Fetch and group membership in `consumer`,
        topics' partitions, quotas, users and access in `admin`. Metadata and links: `cluster`.
"""


def known(value: int) -> int | None:
    """The value, or None for Kafka's "unknown"."""
    return None if value < 0 else value
