"""groups and offsets: what a person types and reads, against Semel and against Apache Kafka.

Method: the same story at both. Groups get members of librdkafka's, offsets are set, shown, reset, carried to another group
and deleted; and what cannot be is refused in words that say why and what to do.
"""

import json
import shlex
import uuid
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from semel.cli.main import cli
from semel.errors import SemelError
from support.groups.group_members import member


class Commands:
    """Runs commands at a broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __call__(self, *arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(cli, arguments, input=stdin, env={"SEMEL_BOOTSTRAP": self.bootstrap})

    def done(self, *arguments: str, stdin: str | None = None) -> str:
        result = self(*arguments, stdin=stdin)
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout

    def json(self, *arguments: str, stdin: str | None = None) -> Any:
        return json.loads(self.done(*arguments, "-o", "json", stdin=stdin))

    def failed(self, *arguments: str) -> str:
        result = self(*arguments)
        assert result.exit_code == 1, result.output
        assert isinstance(result.exception, SemelError), result.exception
        return str(result.exception)

    def offsets(self, group: str) -> dict[int, int]:
        """Partition -> committed offset, for groups of one topic."""
        return {one["partition"]: one["offset"] for one in self.json("offsets", "show", group)}


@pytest.fixture
def semel(group_bootstrap: str) -> Commands:
    return Commands(group_bootstrap)


@pytest.fixture
def topic(semel: Commands) -> str:
    """Three partitions with 10 records in the first, 20 in the second and none in the third."""
    name = f"orders-{uuid.uuid4().hex[:8]}"
    semel.done("topics", "create", name, "--partitions", "3")
    for partition, count in ((0, 10), (1, 20)):
        lines = "".join(f"{number}\n" for number in range(count))
        semel.done("produce", name, "--partition", str(partition), stdin=lines)
    return name


@pytest.fixture
def group() -> str:
    return f"app-{uuid.uuid4().hex[:8]}"


def test_a_group_with_a_member_is_listed_and_described(semel: Commands, topic: str, group: str) -> None:
    with member(semel.bootstrap, group, topic, instance_id="one") as consumer:
        read = consumer.consume(30, timeout=30)
        last = max((one for one in read if one.partition() == 1), key=lambda one: one.offset())
        consumer.commit(last, asynchronous=False)
        listed = {one["group_id"]: one for one in semel.json("groups", "list")}
        assert listed[group] == {
            "group_id": group,
            "type": "classic",
            "protocol_type": "consumer",
            "state": "Stable",
            "coordinator": 1,
        }
        assert group in {one["group_id"] for one in semel.json("groups", "list", "--state", "stable")}
        assert group not in semel.done("groups", "list", "--state", "Empty")
        assert group not in semel.done("groups", "list", "--type", "consumer")
        (described,) = semel.json("groups", "describe", group)
        assert (described["state"], described["type"], described["assignor"]) == (
            "Stable",
            "classic",
            "range",
        )
        (alone,) = described["members"]
        assert (alone["group_instance_id"], alone["client_id"], alone["topics"]) == ("one", "worker", [topic])
        assert alone["assignment"] == [f"{topic}-{index}" for index in range(3)]
        assert described["lag"] == 20 - last.offset() - 1
        assert [(one["committed_offset"], one["end_offset"]) for one in described["offsets"]] == [
            (None, 10),
            (last.offset() + 1, 20),
            (None, 0),
        ]
        assert {one["member_id"] for one in described["offsets"]} == {alone["member_id"]}
        first, *_rest = semel.done("groups", "describe", group).splitlines()
        assert first.startswith(f"{group}  type classic  state Stable  assignor range  coordinator 1  lag ")
        assert semel.failed("groups", "delete", group) == (
            f"group {group} at {semel.bootstrap} has members: stop them first, "
            f"'semel groups describe {group}' names them"
        )
        assert semel.failed("offsets", "delete", group, "--topic", topic) == (
            f"members of group {group} at {semel.bootstrap} are subscribed to {topic}: stop them first, "
            f"'semel groups describe {group}' names them"
        )
        asked = ["offsets", "reset", group, "--all-topics", "--to", "earliest"]
        assert semel.failed(*asked, "--execute") == (
            f"group {group} at {semel.bootstrap} is Stable with 1 member: its offsets can be changed only "
            "while it has none; stop them first, or see the plan without --execute"
        )
        planned = semel(*asked)
        assert planned.exit_code == 0
        assert "is Stable with 1 member" in planned.stderr
        assert semel.offsets(group) == {1: last.offset() + 1}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_is_removed(semel: Commands, topic: str, group: str, protocol: str) -> None:
    with member(semel.bootstrap, group, topic, protocol=protocol, instance_id="gone"):
        said = semel.done("groups", "remove-members", group, "--instance", "gone")
        assert said == f"removed 1 member of {group}\n"
        (described,) = semel.json("groups", "describe", group)
        assert described["members"] == []
        assert semel.failed("groups", "remove-members", group, "--instance", "gone") == (
            f"group {group} at {semel.bootstrap} has no member gone: see 'semel groups describe {group}'"
        )
    with member(semel.bootstrap, f"{group}-2", topic, protocol=protocol):
        assert (
            semel.done("groups", "remove-members", f"{group}-2", "--all")
            == f"removed 1 member of {group}-2\n"
        )


def test_a_group_of_the_new_protocol_is_described(semel: Commands, topic: str, group: str) -> None:
    with member(semel.bootstrap, group, topic, protocol="consumer"):
        (described,) = semel.json("groups", "describe", group)
        assert (described["state"], described["type"], described["assignor"]) == (
            "Stable",
            "consumer",
            "uniform",
        )
        (alone,) = described["members"]
        assert alone["topics"] == [topic]
        assert sorted(alone["assignment"]) == [f"{topic}-{index}" for index in range(3)]
        assert alone["target_assignment"] == alone["assignment"]
        assert alone["member_epoch"] == described["group_epoch"] == described["assignment_epoch"]
        assert group in semel.done("groups", "list", "--type", "consumer")
    (described,) = semel.json("groups", "describe", group)
    assert (described["state"], described["members"]) == ("Empty", [])


def test_every_way_to_reset(semel: Commands, topic: str, group: str) -> None:
    def reset(*how: str, topics: str = topic) -> dict[int, int]:
        planned = semel.json("offsets", "reset", group, "--topic", topics, *how)
        before = semel.offsets(group) if group in semel.done("groups", "list") else {}
        done = semel.json("offsets", "reset", group, "--topic", topics, *how, "--execute")
        assert planned == done
        assert {one["group"] for one in done} == {group}
        assert [one["committed_offset"] for one in done] == [before.get(one["partition"]) for one in done]
        now = semel.offsets(group)
        assert now == before | {one["partition"]: one["new_offset"] for one in done}
        return now

    assert reset("--to", "latest") == {0: 10, 1: 20, 2: 0}  # The group did not exist.
    assert reset("--to", "earliest") == {0: 0, 1: 0, 2: 0}
    assert reset("--to", "7", topics=f"{topic}:0,1") == {0: 7, 1: 7, 2: 0}
    assert reset("--shift-by", "5", topics=f"{topic}:1") == {0: 7, 1: 12, 2: 0}
    assert reset("--shift-by", "-2", topics=f"{topic}:0,1") == {0: 5, 1: 10, 2: 0}
    assert reset("--to", "@0") == {0: 0, 1: 0, 2: 0}
    assert reset("--to", "@2100-01-01T00:00:00Z") == {0: 10, 1: 20, 2: 0}
    assert reset("--by-duration", "1h", topics=f"{topic}:0") == {0: 0, 1: 20, 2: 0}
    assert reset("--by-duration", "PT0S", topics=f"{topic}:0") == {0: 10, 1: 20, 2: 0}
    assert reset("--to", "current") == {0: 10, 1: 20, 2: 0}
    semel.done("offsets", "reset", group, "--all-topics", "--to", "earliest", "--execute")
    assert semel.offsets(group) == {0: 0, 1: 0, 2: 0}


@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]], ids=["default", "--dry-run"])
def test_a_reset_is_a_plan_until_it_is_executed(
    semel: Commands, topic: str, group: str, dry_run: list[str]
) -> None:
    semel.done("offsets", "reset", group, "--topic", topic, "--to", "earliest", "--execute")
    asked = ["offsets", "reset", group, "--topic", topic, *dry_run, "--to", "3"]
    secret = ["-X", "sasl.password=my secret", "-Xsasl.password=my secret"]
    planned = semel(*asked, *secret)
    header, *rows = planned.stdout.splitlines()
    assert header.split() == ["GROUP", "TOPIC", "PARTITION", "FROM", "TO"]
    steps = [[group, topic, "0", "0", "3"], [group, topic, "1", "0", "3"], [group, topic, "2", "0", "0"]]
    assert [row.split() for row in rows] == steps
    said, command = planned.stderr.splitlines()[-1].split(": ")
    assert said == f"a plan, nothing is changed; to set 3 offsets of group {group}"
    assert shlex.split(command) == [
        *("semel", "offsets", "reset", group, "--topic", topic, "--to", "3"),
        *("-X", "sasl.password=…", "-Xsasl.password=…", "--execute"),
    ]
    assert semel.offsets(group) == {0: 0, 1: 0, 2: 0}, "nothing is changed"
    done = semel(*shlex.split(command)[1:])
    assert done.stdout.splitlines() == planned.stdout.splitlines()
    assert done.stderr.splitlines()[-1] == f"done: 3 offsets of group {group} set"
    assert semel.offsets(group) == {0: 3, 1: 3, 2: 0}


def test_an_offset_outside_the_log_becomes_the_nearest_inside(
    semel: Commands, topic: str, group: str
) -> None:
    done = f"done: 1 offset of group {group} set\n"
    beyond = semel("offsets", "reset", group, "--topic", f"{topic}:0", "--to", "99", "--execute")
    assert beyond.exit_code == 0
    assert beyond.stderr == f"99 is behind the end of {topic}-0: 10 is taken\n{done}"
    assert semel.offsets(group) == {0: 10}
    before = semel("offsets", "reset", group, "--topic", f"{topic}:0", "--shift-by", "-99", "--execute")
    assert before.stderr == f"-89 is before the first offset of {topic}-0: 0 is taken\n{done}"
    assert semel.offsets(group) == {0: 0}
    assert semel.failed("offsets", "reset", group, "--topic", topic, "--shift-by", "1") == (
        f"nothing is committed for {topic}-1: there is no offset to shift; "
        f"nothing is committed for {topic}-2: there is no offset to shift"
    )
    late = semel("offsets", "reset", group, "--topic", f"{topic}:2", "--to", "@0", "--execute")
    assert late.stderr == f"{topic}-2 has no record at or after that time: its end, 0, is taken\n{done}"


@pytest.mark.parametrize("file_format", ["csv", "json"])
@pytest.mark.parametrize("with_group", [False, True])
def test_offsets_go_from_one_group_to_another(
    semel: Commands, topic: str, group: str, tmp_path: Path, file_format: str, with_group: bool
) -> None:
    semel.done("offsets", "reset", group, "--topic", topic, "--to", "6", "--execute")
    asked = ["offsets", "export", group, "-o", file_format]
    text = semel.done(*asked, *(["--with-group"] if with_group else []))
    if file_format == "csv":
        prefix = f"{group}," if with_group else ""
        assert text == f"{prefix}{topic},0,6\n{prefix}{topic},1,6\n{prefix}{topic},2,0\n"
    semel.done("offsets", "reset", group, "--topic", topic, "--to", "latest", "--execute")
    other = group if with_group else f"{group}-copy"
    file = tmp_path / "offsets"
    file.write_text(text, encoding="utf-8")
    before = semel.offsets(other) if with_group else None
    planned = semel("offsets", "import", other, str(file), "-o", "json")
    assert planned.stderr.endswith(f"semel offsets import {other} {file} -o json --execute\n")
    assert before is None or semel.offsets(other) == before
    assert json.loads(planned.stdout) == semel.json("offsets", "import", other, "-", "--execute", stdin=text)
    assert semel.offsets(other) == {0: 6, 1: 6, 2: 0}


def test_offsets_and_groups_are_deleted(semel: Commands, topic: str, group: str) -> None:
    semel.done("offsets", "reset", group, "--topic", topic, "--to", "latest", "--execute")
    said = semel.done("offsets", "delete", group, "--topic", f"{topic}:0")
    assert said == f"deleted the offset of {group} in {topic}-0\n"
    assert semel.offsets(group) == {1: 20, 2: 0}
    assert semel.failed("offsets", "delete", group, "--topic", "elsewhere") == (
        f"group {group} at {semel.bootstrap} has no offsets of elsewhere: see 'semel offsets show {group}'"
    )
    assert semel.done("groups", "delete", group) == f"deleted {group}\n"
    missing = f"group {group} does not exist at {semel.bootstrap}: see 'semel groups list'"
    for asked in (
        ["groups", "delete", group],
        ["groups", "describe", group],
        ["groups", "remove-members", group, "--all"],
        ["offsets", "show", group],
        ["offsets", "export", group],
        ["offsets", "delete", group, "--topic", topic],
        ["offsets", "reset", group, "--all-topics", "--to", "latest"],
    ):
        assert semel.failed(*asked) == missing


def test_a_topic_that_is_gone_has_no_lag(semel: Commands, topic: str, group: str) -> None:
    semel.done("offsets", "reset", group, "--topic", f"{topic}:0", "--to", "5", "--execute")
    kept = f"{topic}-kept"
    semel.done("topics", "create", kept)
    semel.done("offsets", "reset", group, "--topic", kept, "--to", "latest", "--execute")
    assert f"topic {topic}-x does not exist" in semel.failed(
        "offsets", "reset", group, "--topic", f"{topic}-x", "--to", "latest"
    )
    semel.done("topics", "delete", topic)
    shown = {one["topic"]: one for one in semel.json("offsets", "show", group)}
    assert shown[kept]["lag"] == 0
    assert shown.get(topic, {"end_offset": None})["end_offset"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["groups", "list", "--state", "Happy"], "'Happy' is not one of"),
        (["groups", "describe"], "Missing argument 'GROUP"),
        (
            ["groups", "remove-members", "g"],
            "Name members with --member or --instance, or take --all of them.",
        ),
        (["groups", "remove-members", "g", "--all", "--member", "m"], "or take --all of them."),
        (["offsets", "reset", "g", "--to", "latest"], "Name topics with --topic, or take --all-topics."),
        (["offsets", "reset", "g", "--all-topics"], "Say where to with one of --to, --shift-by"),
        (
            ["offsets", "reset", "g", "--all-topics", "--to", "latest", "--shift-by", "1"],
            "Say where to with one of --to",
        ),
        (
            ["offsets", "reset", "g", "--topic", "t:x", "--to", "1"],
            "'t:x' is neither TOPIC nor TOPIC:PARTITION",
        ),
        (
            ["offsets", "reset", "g", "--topic", "t", "--to", "-1"],
            "neither earliest, latest, current, an offset",
        ),
        (
            ["offsets", "reset", "g", "--topic", "t", "--by-duration", "soon"],
            "'soon' is not a duration: use 90m",
        ),
        (["offsets", "reset", "g", "--topic", "t", "--to", "@soon"], "use milliseconds since 1970 or a time"),
        (
            ["offsets", "reset", "g", "--all-topics", "--to", "latest", "--execute", "--dry-run"],
            "--execute carries the plan out and --dry-run does not: keep one.",
        ),
        (
            ["offsets", "import", "g", "-", "--dry-run", "--execute"],
            "--execute carries the plan out and --dry-run does not: keep one.",
        ),
        (["offsets", "delete", "g"], "'semel groups delete' forgets all of a group."),
        (["offsets", "import", "g", "/no/such/file"], "does not exist"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("t,0\n", "line 1 has 2 values: use TOPIC,PARTITION,OFFSET or GROUP,TOPIC,PARTITION,OFFSET"),
        ("t,0,5\nt,x,5\n", "line 2: 't,x,5' is not a topic with a partition and an offset from 0 on"),
        ("t,0,5\n\nt,0,6\n", "line 3: t-0 has two offsets, 5 and 6: keep one"),
        ("other,t,0,5\n", "has no offsets of group g"),
        ('[{"topic": "t"}]', "entry 1: {'topic': 't'} is not an object with topic, partition and offset"),
        ("[{", "is no JSON"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "offsets"
    file.write_text(content, encoding="utf-8")
    assert message in Commands("127.0.0.1:1").failed("offsets", "import", "g", str(file))
