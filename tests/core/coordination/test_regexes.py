"""Regular expressions of clients: RE2's syntax, Kafka's words, and no expression that takes forever.

Method: expressions good and bad, and names to match, are put to re2j, the library Kafka has, in one JVM
(`tests/java/ServerAssignorOracle.java`); verdicts, words and matches must be the same.
"""

import json
import time
from pathlib import Path

import pytest

from semel.core.coordination.regexes import flaw, resolve
from semel.peers.kafka import KafkaHome

ORACLE = Path(__file__).parents[2] / "java" / "ServerAssignorOracle.java"
NAMES = [
    "orders",
    "orders-1",
    "orders.eu",
    "Orders",
    "__consumer_offsets",
    "a",
    "aa",
    "payments",
    "A_b",
    "x" * 249,
]
GOOD = [
    *(
        "",
        "orders",
        "orders.*",
        "^orders$",
        "order",
        "(?i)orders",
        "[a-z]+",
        r"orders\.\w+",
        "(a|aa)",
        "a{1,2}",
    ),
    *(
        "a{1,}",
        "a{,3}",
        r"\Qorders.eu\E",
        r"[^\d]+",
        "[[:upper:]].*",
        r"\pL+",
        "(?P<n>a)+",
        "(?<n>a)",
        r"\x61",
        "x{249}",
    ),
    *("(?s).*", "a||b", "(|a)*", r"\bpayments\b", r"\A.*\z", "(?:orders|payments)-?[0-9]*", "[]a]+", "a{1"),
]
BAD = [
    *(
        "(",
        ")",
        "[a",
        "a**",
        "a++",
        r"\1",
        "(?=a)",
        "(?!a)",
        "(?<=a)b",
        "x{1001}",
        "a{2,1}",
        "(?P<n",
        "*a",
        "+",
        "\\",
    ),
    *(
        "[z-a]",
        r"\pQ",
        "(?z)",
        r"\Z",
        r"\G",
        "[]",
        r"\8",
        "a{99999}",
        "(?i",
        "[[:foo:]]",
        r"[a-\d]",
        "(?",
        "x{2}{3}",
    ),
]


@pytest.mark.java
def test_expressions_mean_what_they_mean_in_kafka(kafka_home: KafkaHome) -> None:
    cases = [{"regex": one, "names": NAMES} for one in GOOD + BAD]
    answers = json.loads(kafka_home.run(str(ORACLE), stdin=json.dumps(cases)))
    for expression, theirs in zip(GOOD + BAD, answers, strict=True):
        said = flaw(expression)
        assert (said, list(resolve(expression, NAMES))) == (theirs["flaw"], theirs["names"]), expression
        assert (said is None) == (expression in GOOD), expression


def test_no_expression_takes_long() -> None:
    began = time.process_time()
    for expression in ["(a+)+b", "(a*)*b", "(a|aa)+b", "(x?){200}x{200}", "(.*)*(.*)*(.*)*y"]:
        assert flaw(expression) is None
        assert resolve(expression, ["x" * 249, "a" * 249] * 200) in ((), ("x" * 249,) * 200)
    assert time.process_time() - began < 5


def test_an_expression_that_would_fill_memory_is_refused() -> None:
    assert flaw("((((a{1,100}){1,100}){1,100}){1,100})") is not None
