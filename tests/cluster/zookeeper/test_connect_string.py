"""`zookeeper.connect` is read as Kafka reads it, and a text that names no servers is refused by the part that is wrong."""

import pytest

from semel.cluster.zookeeper.connect_string import Servers, parse
from semel.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "servers", "again"),
    [
        ("zk", Servers((("zk", 2181),)), "zk:2181"),
        ("zk:2182", Servers((("zk", 2182),)), "zk:2182"),
        ("a:1,b:2, c", Servers((("a", 1), ("b", 2), ("c", 2181))), "a:1,b:2,c:2181"),
        ("a:1,b:2/kafka/one", Servers((("a", 1), ("b", 2)), "/kafka/one"), "a:1,b:2/kafka/one"),
        ("a:1/", Servers((("a", 1),)), "a:1"),
        ("a/kafka/", Servers((("a", 2181),), "/kafka"), "a:2181/kafka"),
        (
            "[::1]:2182,[fe80::1%eth0]",
            Servers((("::1", 2182), ("fe80::1%eth0", 2181))),
            "[::1]:2182,[fe80::1%eth0]:2181",
        ),
    ],
)
def test_servers_and_chroot(text: str, servers: Servers, again: str) -> None:
    assert parse(text) == servers
    assert str(servers) == again
    assert parse(again) == servers


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "''"),
        ("zk:", "'zk:'"),
        ("zk:0", "'zk:0'"),
        ("zk:65536", "'zk:65536'"),
        ("zk:2181,", "''"),
        ("a:1/kafka,b:2", "'/kafka,b:2' is no path of a node; it goes behind the last server"),
        ("zk:2181:2182", "'zk:2181:2182'"),
        ("::1:2181", "'::1:2181'"),
        ("zk one:2181", "'zk one:2181'"),
        ("zk//kafka", "'//kafka'"),
        ("zk/a/../b", "'/a/../b'"),
    ],
)
def test_a_wrong_part_is_named(text: str, wrong: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(text)
    assert f"zookeeper.connect={text!r}" in str(refused.value)
    assert wrong in str(refused.value)
