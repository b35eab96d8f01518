"""The admin client: topics by name or described, and answers by key."""

from typing import reveal_type

from semel import Admin, Broker, NewTopic

with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
    reveal_type(broker.bootstrap)  # reveals: str
    reveal_type(admin)  # reveals: Admin
    created = admin.create_topics(["plain", NewTopic("wide", num_partitions=12)])
    reveal_type(created)  # reveals: Answers[str, CreatedTopic]
    reveal_type(created["wide"].name)  # reveals: str
    reveal_type(admin.list_topics())  # reveals: Listing[TopicListing]
    for name, described in admin.describe_topics(["plain"]).items():
        reveal_type(name)  # reveals: str
        reveal_type(described)  # reveals: TopicDescription
    admin.create_topics([7])  # refused: list-item
    NewTopic("orders", num_partitions="12")  # refused: arg-type
