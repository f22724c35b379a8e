"""Reading process and control group tables."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from qinglong.worker.linux import cgroup, grouping, procfs

LINE = b"42 (sh) S 1 40 39 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 3 0 12345 8192 100\n"


def test_a_stat_line():
    assert procfs.parse_stat(LINE) == procfs.Stat(42, "S", 1, 40, 39, False, 3, 12345)


def test_a_name_cannot_forge_fields():
    stat = procfs.parse_stat(LINE.replace(b"(sh)", b"(x) R 7 7 7 (y\n z)"))
    assert stat == procfs.Stat(42, "S", 1, 40, 39, False, 3, 12345)


@pytest.mark.parametrize(
    "raw", [b"", b"42 (sh) S 1", b"x (sh) S" + b" 1" * 30, b"42 (sh) S" + b" x" * 30, b"\n"]
)
def test_what_is_no_stat_line(raw):
    assert procfs.parse_stat(raw) is None


@pytest.mark.parametrize(
    ("state", "threads", "alive"), [("R", 1, True), ("Z", 1, False), ("Z", 2, True), ("X", 1, False)]
)
def test_a_zombie_is_dead_unless_it_has_threads(state, threads, alive):
    assert procfs.Stat(1, state, 0, 1, 1, False, threads, 0).alive is alive


def mounts(root: str, point: Path) -> str:
    return (
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        f"41 31 0:38 {root} {point} rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
    )


@pytest.mark.parametrize(
    ("root", "own", "found"),
    [
        ("/", "1:cpu:/a\n0::/\n", ""),
        ("/", "0::/system.slice/ql.service\n", "/system.slice/ql.service"),
        ("/", "0::/system.slice/ql.service/qinglong\n", "/system.slice/ql.service/qinglong"),
        ("/docker/1", "0::/docker/1/sub\n", "/sub"),
        ("/docker/1", "0::/docker/1\n", ""),
        ("/", "0::/../outside\n", None),
        ("/", "1:cpu:/a\n", None),
    ],
)
def test_where_our_own_control_group_is(root, own, found):
    answer = grouping.own_group(mounts(root, Path("/a\\040b/cg")), own)
    assert answer == (None if found is None else f"/a b/cg{found}")


def test_no_control_groups_at_all(tmp_path):
    assert grouping.own_group("", "0::/\n") is None
    assert cgroup.populated(str(tmp_path)) is None
    assert cgroup.frozen(str(tmp_path)) is None
    assert cgroup.freeze(str(tmp_path), True) is False
    assert cgroup.make(str(tmp_path / "none"), "x") is None
    assert cgroup.members(str(tmp_path / "none")) == frozenset()
    cgroup.kill(str(tmp_path / "none"))


def test_a_folder_that_is_no_control_group_is_not_taken_for_one(tmp_path):
    assert cgroup.make(str(tmp_path), "x") is None
    assert list(tmp_path.iterdir()) == []


def test_a_thread_is_told_from_its_process():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(threading.get_native_id()) or go.wait())
    go = threading.Event()
    thread.start()
    try:
        assert seen[0] != os.getpid()
        assert procfs.process_of(f"/proc/{seen[0]}") == procfs.process_of("/proc/self") == os.getpid()
    finally:
        go.set()
        thread.join()
    assert procfs.process_of("/proc/none") is None
