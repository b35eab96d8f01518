"""The simulated disk keeps the promises of `runtime/files.py`, and breaks only what a real disk may break.

Method: without faults, any sequence of operations gives what the operating system gives (differential
property). With faults, each rule of durability is tried over many seeds, and the rule is stated as the set of
outcomes a real disk allows: none outside it ever appears, and each of the interesting ones does appear.
"""

import errno
import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import LogDirLockedError
from semel.runtime.files import File, Files, RealFiles, join, read_whole, write_atomically
from semel.runtime.memory_faults import DiskCrashed
from semel.runtime.memory_files import MemoryDisk

SEEDS: Final = range(200)


def disk_with(content: bytes, seed: int = 0) -> MemoryDisk:
    """A disk with one durable file, /data/log."""
    disk = MemoryDisk(random.Random(seed))
    disk.make_directory("/data")
    disk.sync_directory("/")
    file = disk.open("/data/log", create=True)
    file.write_at(0, content)
    file.sync()
    disk.sync_directory("/data")
    return disk


# The same as the operating system, as long as nothing goes wrong.

NAMES = ("a", "b", "d", "d/a", "d/e", "d/e/f")
paths = st.sampled_from(NAMES)
positions = st.integers(0, 40)
contents = st.binary(max_size=20)
steps = st.one_of(
    st.tuples(st.just("write"), paths, positions, contents),
    st.tuples(st.just("writev"), paths, positions, st.lists(contents, max_size=4)),
    st.tuples(st.just("read"), paths, positions, st.integers(0, 60)),
    st.tuples(st.just("truncate"), paths, positions),
    st.tuples(st.just("open"), paths, st.booleans(), st.booleans()),
    st.tuples(st.just("close"), paths),
    st.tuples(st.just("sync"), paths),
    st.tuples(st.just("mkdir"), paths),
    st.tuples(st.just("remove"), paths),
    st.tuples(st.just("remove_tree"), paths),
    st.tuples(st.just("rename"), paths, paths),
    st.tuples(st.just("list"), paths),
    st.tuples(st.just("file size"), paths),
    st.tuples(st.just("size"), paths),
    st.tuples(st.just("exists"), paths),
    st.tuples(st.just("is_directory"), paths),
    st.tuples(st.just("sync_directory"), paths),
)


def run(files: Files, root: str, step: tuple[object, ...], opened: dict[str, File]) -> object:  # noqa: C901 - a table of calls
    match step:
        case ("write", str(name), int(position), bytes(data)):
            opened[name].write_at(position, data)
        case ("writev", str(name), int(position), list(buffers)):
            opened[name].write_all_at(position, buffers)
        case ("read", str(name), int(position), int(size)):
            return opened[name].read_at(position, size)
        case ("truncate", str(name), int(size)):
            opened[name].truncate(size)
        case ("open", str(name), bool(create), bool(read_only)):
            if files.is_directory(join(root, name)):
                return "skipped: Linux opens directories for reading, and nobody here does"
            opened[name] = files.open(join(root, name), create=create, read_only=read_only)
        case ("close", str(name)):
            opened[name].close()
        case ("sync", str(name)):
            opened[name].sync()
        case ("file size", str(name)):
            return opened[name].size()
        case ("mkdir", str(name)):
            files.make_directory(join(root, name))
        case ("remove", str(name)):
            files.remove(join(root, name))
        case ("remove_tree", str(name)):
            files.remove_tree(join(root, name))
        case ("rename", str(source), str(target)):
            files.rename(join(root, source), join(root, target))
        case ("list", str(name)):
            return files.list_directory(join(root, name))
        case ("size", str(name)):
            return None if files.is_directory(join(root, name)) else files.size(join(root, name))
        case ("exists", str(name)):
            return files.exists(join(root, name))
        case ("is_directory", str(name)):
            return files.is_directory(join(root, name))
        case ("sync_directory", str(name)):
            if not files.is_directory(join(root, name)):
                return "skipped: Linux syncs a file this way too, and nobody here does"
            files.sync_directory(join(root, name))
        case _:
            raise AssertionError(step)
    return None


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except KeyError:
        return "not open"
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def everything_below(files: Files, root: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in files.list_directory(root):
        path = join(root, name)
        found[name] = everything_below(files, path) if files.is_directory(path) else read_whole(files, path)
    return found


@settings(max_examples=300)
@given(script=st.lists(steps, max_size=40))
def test_without_faults_it_is_the_operating_system(
    script: list[tuple[object, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = str(tmp_path_factory.mktemp("disk"))
    real, memory = RealFiles(), MemoryDisk(random.Random(0))
    memory.make_directory("/disk")
    real_opened: dict[str, File] = {}
    memory_opened: dict[str, File] = {}
    try:
        for step in script:
            expected = outcome(lambda step=step: run(real, root, step, real_opened))  # type: ignore[misc]  # a default binds it
            assert outcome(lambda step=step: run(memory, "/disk", step, memory_opened)) == expected, step  # type: ignore[misc]  # as above
        assert everything_below(memory, "/disk") == everything_below(real, root)
    finally:
        for file in real_opened.values():
            file.close()


def test_locks_exclude_until_released(tmp_path: Path) -> None:
    memory = MemoryDisk(random.Random(0))
    for files, path in ((RealFiles(), str(tmp_path / ".lock")), (memory, "/.lock")):
        lock = files.lock(path)
        with pytest.raises(LogDirLockedError, match=r"\.lock is locked"):
            files.lock(path)
        lock.release()
        files.lock(path).release()


# What a power cut may do.


def test_synced_bytes_survive_every_power_cut() -> None:
    for seed in SEEDS:
        disk = disk_with(b"kept" * 500, seed)
        disk.crash()
        assert read_whole(disk, "/data/log") == b"kept" * 500


def test_unsynced_writes_are_kept_lost_or_torn_and_later_ones_may_outlive_earlier_ones() -> None:
    seen: set[str] = set()
    for seed in SEEDS:
        disk = disk_with(b"0" * 600, seed)
        file = disk.open("/data/log")
        file.write_at(600, b"1" * 600)
        file.write_at(1200, b"2" * 600)
        assert file.size() == 1800, "readers see what was written at once"
        disk.crash()
        after = read_whole(disk, "/data/log")
        assert after[:600] == b"0" * 600, "what was synced before is untouched"
        assert set(after[600:1200]) <= {ord("1"), 0}
        assert set(after[1200:]) <= {ord("2"), 0}
        first, second = after[600:1200], after[1200:]
        if not first:
            seen.add("both lost")
        elif first == b"1" * 600 and second == b"2" * 600:
            seen.add("both kept")
        elif second.count(b"2") and first == bytes(600):
            seen.add("only the later one kept")
        elif first.strip(b"1") == b"" and not second:
            seen.add("the first torn, the later lost")
        if after[600:] and not after[600:].strip(b"\0"):
            seen.add("longer without data")
        if b"\0" in first.rstrip(b"\0") or b"\0" in second.rstrip(b"\0"):
            seen.add("a hole inside")
    assert seen == {
        "both lost",
        "both kept",
        "only the later one kept",
        "the first torn, the later lost",
        "longer without data",
        "a hole inside",
    }


def test_an_overwrite_leaves_old_bytes_where_it_was_lost() -> None:
    lengths = set()
    for seed in SEEDS:
        disk = disk_with(b"o" * 2048, seed)
        disk.open("/data/log").write_at(0, b"n" * 2048)
        disk.crash()
        after = read_whole(disk, "/data/log")
        assert len(after) == 2048
        assert set(after) <= set(b"on")
        lengths.add(after.count(b"n"))
    assert {0, 2048} < lengths
    assert any(length % 512 for length in lengths), "torn at a byte"
    assert {512, 1024, 1536} & lengths, "torn at a sector"


def test_a_lost_truncation_takes_later_writes_with_it() -> None:
    seen = set()
    for seed in SEEDS:
        disk = disk_with(b"aabbcc", seed)
        file = disk.open("/data/log")
        file.truncate(2)
        file.write_at(2, b"BB")
        disk.crash()
        seen.add(read_whole(disk, "/data/log").rstrip(b"\0"))
    assert seen == {b"aabbcc", b"aa", b"aaB", b"aaBB"}


def test_a_name_is_durable_only_after_its_directory_is_synced() -> None:
    seen = set()
    for seed in SEEDS:
        disk = disk_with(b"old", seed)
        file = disk.open("/data/new", create=True)
        file.write_at(0, b"synced")
        file.sync()
        disk.rename("/data/log", "/data/moved")
        disk.remove("/data/moved")
        disk.crash()
        seen.add(tuple(disk.list_directory("/data")))
        if disk.exists("/data/new"):
            assert read_whole(disk, "/data/new") == b"synced"
    # A prefix of: create new, rename log, remove it. Never the removal without the creation.
    assert seen == {("log",), ("log", "new"), ("moved", "new"), ("new",)}


def test_sync_directory_settles_its_names() -> None:
    for seed in SEEDS:
        disk = disk_with(b"old", seed)
        disk.rename("/data/log", "/data/moved")
        disk.sync_directory("/data")
        disk.crash()
        assert disk.list_directory("/data") == ["moved"]


def test_write_atomically_leaves_the_old_or_the_new_file_whatever_happens() -> None:
    dry = disk_with(b"old")
    before = dry.counters.operations
    write_atomically(dry, "/data/log", b"new" * 1000)
    points = dry.counters.operations - before
    seen = set()
    for seed in range(40):
        for point in range(points):
            disk = disk_with(b"old", seed)
            disk.crash_at_operation(point)
            with pytest.raises(DiskCrashed):
                write_atomically(disk, "/data/log", b"new" * 1000)
            disk.restart()
            seen.add(read_whole(disk, "/data/log"))
        disk = disk_with(b"old", seed)
        write_atomically(disk, "/data/log", b"new" * 1000)
        disk.crash()
        assert read_whole(disk, "/data/log") == b"new" * 1000, "once it returned, it is the new one"
    assert seen == {b"old", b"new" * 1000}


def test_a_rename_of_unsynced_bytes_may_leave_an_empty_file() -> None:
    """The mistake `write_atomically` avoids; a disk that could not show it would prove nothing."""
    seen = set()
    for seed in SEEDS:
        disk = disk_with(b"old", seed)
        disk.open("/data/tmp", create=True).write_at(0, b"new")
        disk.rename("/data/tmp", "/data/log")
        disk.sync_directory("/data")
        disk.crash()
        seen.add(read_whole(disk, "/data/log"))
    assert {b"", b"new"} < seen


# Deaths.


def test_handles_and_locks_die_with_their_process_and_the_bytes_stay() -> None:
    disk = disk_with(b"one")
    file = disk.open("/data/log")
    lock = disk.lock("/data/.lock")
    file.write_at(3, b"two")
    disk.kill()
    with pytest.raises(DiskCrashed):
        file.write_at(6, b"three")
    with pytest.raises(DiskCrashed):
        file.size()
    file.close()
    assert read_whole(disk, "/data/log") == b"onetwo"
    second = disk.lock("/data/.lock")
    lock.release()
    with pytest.raises(LogDirLockedError):
        disk.lock("/data/.lock")
    second.release()


def test_a_kill_can_cut_a_write_at_every_byte() -> None:
    for cut in range(7):
        disk = disk_with(b"")
        file = disk.open("/data/log")
        disk.crash_after(cut, death="kill")
        with pytest.raises(DiskCrashed):
            file.write_all_at(0, [b"abc", b"def"])
        with pytest.raises(DiskCrashed):
            disk.open("/data/log")
        with pytest.raises(DiskCrashed):
            disk.exists("/data/log")
        disk.restart()
        assert read_whole(disk, "/data/log") == b"abcdef"[:cut]


def test_a_planned_crash_reaches_every_kind_of_change() -> None:
    def story(disk: MemoryDisk) -> None:
        disk.make_directory("/x/y")
        file = disk.open("/x/y/f", create=True)
        file.write_at(0, b"12345")
        file.truncate(3)
        file.sync()
        disk.sync_directory("/x/y")
        disk.rename("/x/y/f", "/x/y/g")
        disk.remove_tree("/x")

    dry = MemoryDisk(random.Random(0))
    story(dry)
    assert dry.counters.operations == 11
    for point in range(11):
        for death in ("power cut", "kill"):
            disk = MemoryDisk(random.Random(point))
            disk.crash_at_operation(point, death=death)
            with pytest.raises(DiskCrashed):
                story(disk)
            assert disk.counters.operations == point + 1
            disk.restart()
            disk.remove_tree("/x")
            story(disk)


def test_a_power_cut_after_a_planned_kill_still_loses_writes() -> None:
    lost = 0
    for seed in SEEDS:
        disk = disk_with(b"", seed)
        file = disk.open("/data/log")
        disk.crash_after(3, death="kill")
        with pytest.raises(DiskCrashed):
            file.write_at(0, b"abcdef")
        disk.crash()
        lost += read_whole(disk, "/data/log") != b"abc"
    assert 0 < lost < len(SEEDS)


# Errors that are no death.


def test_a_full_disk_takes_a_part_and_says_so() -> None:
    disk = MemoryDisk(random.Random(0), capacity_bytes=10)
    file = disk.open("/log", create=True)
    file.write_at(0, b"1234567")
    assert disk.free_bytes("/") == 3
    with pytest.raises(OSError, match="No space left") as caught:
        file.write_at(7, b"abcdef")
    assert caught.value.errno == errno.ENOSPC
    assert read_whole(disk, "/log") == b"1234567abc"
    file.write_at(0, b"overwriting needs no room"[:10])
    file.truncate(4)
    assert disk.free_bytes("/") == 6
    disk.remove("/log")
    assert disk.free_bytes("/") == 10


def test_a_byte_budget_runs_out_anywhere() -> None:
    disk = disk_with(b"")
    file = disk.open("/data/log")
    disk.fill_after(5)
    file.write_at(0, b"abc")
    with pytest.raises(OSError, match="No space left"):
        file.write_at(3, b"def")
    assert read_whole(disk, "/data/log") == b"abcde"
    disk.clear_faults()
    file.write_at(5, b"f")


def test_a_failed_write_leaves_any_part() -> None:
    sizes = set()
    for seed in SEEDS:
        disk = disk_with(b"", seed)
        disk.fail("write", skip=1, path_part="log")
        file = disk.open("/data/log")
        file.write_at(0, b"ab")
        with pytest.raises(OSError, match="Input/output error"):
            file.write_at(2, b"cd")
        file.truncate(2)
        file.write_at(2, b"ef")
        sizes.add(disk.counters.written_bytes)
    assert len(sizes) == 3


def test_after_a_failed_sync_a_later_sync_does_not_save_the_bytes() -> None:
    seen = set()
    for seed in SEEDS:
        disk = disk_with(b"", seed)
        file = disk.open("/data/log")
        file.write_at(0, b"ab")
        disk.fail("sync")
        with pytest.raises(OSError, match="Input/output error"):
            file.sync()
        file.sync()
        assert file.read_at(0, 2) == b"ab", "the page cache still shows them"
        disk.crash()
        seen.add(read_whole(disk, "/data/log"))
    assert {b"", b"ab"} <= seen


@pytest.mark.parametrize(
    "operation", ["open", "create", "read", "rename", "remove", "make_directory", "truncate"]
)
def test_any_operation_can_be_made_to_fail_once(operation: str) -> None:
    disk = disk_with(b"x")
    disk.fail(operation, errno.EIO)  # type: ignore[arg-type]  # the literals of the parameters above

    def story() -> None:
        disk.make_directory("/data/more")
        file = disk.open("/data/again", create=True)
        file.truncate(1)
        file.read_at(0, 1)
        disk.rename("/data/again", "/data/more/again")
        disk.remove("/data/more/again")

    with pytest.raises(OSError, match="Input/output error"):
        story()
    story()


def test_counters_tell_reads_from_writes() -> None:
    disk = disk_with(b"abc")
    before = disk.counters.reads
    file = disk.open("/data/log")
    file.write_at(3, b"def")
    file.size()
    assert disk.counters.reads == before
    assert file.read_at(1, 3) == b"bcd"
    assert (disk.counters.reads, disk.counters.read_bytes) == (before + 1, 3)
    assert (disk.counters.syncs, disk.counters.directory_syncs) == (1, 2)
    assert (disk.counters.writes, disk.counters.written_bytes) == (2, 6)


def test_a_simulated_file_has_no_descriptor() -> None:
    with pytest.raises(OSError, match="no descriptor"):
        disk_with(b"").open("/data/log").fileno()


def test_the_same_seed_loses_the_same_bytes() -> None:
    def story(seed: int) -> list[bytes]:
        disk = disk_with(b"0" * 5000, seed)
        found = []
        for _ in range(20):
            file = disk.open("/data/log")
            for position in range(0, 5000, 700):
                file.write_at(position, bytes([65 + position % 26]) * 900)
            disk.crash()
            found.append(read_whole(disk, "/data/log"))
        return found

    assert story(7) == story(7)
    assert story(7) != story(8)
