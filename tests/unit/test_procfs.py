"""Reading process and control group tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from qinglong.worker.linux import cgroup, procfs

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
    ("root", "own", "made"),
    [
        ("/", "1:cpu:/a\n0::/\n", "qinglong"),
        ("/", "0::/system.slice/ql.service\n", "system.slice/ql.service/qinglong"),
        ("/docker/1", "0::/docker/1/sub\n", "sub/qinglong"),
        ("/", "0::/../outside\n", None),
        ("/", "1:cpu:/a\n", None),
        ("/", "0::/no-such-group\n", None),
    ],
)
def test_where_control_groups_are_made(tmp_path, root, own, made):
    point = tmp_path / "cg"
    (point / "system.slice/ql.service").mkdir(parents=True)
    (point / "sub").mkdir()
    (tmp_path / "mountinfo").write_text(mounts(root, point))
    (tmp_path / "cgroup").write_text(own)
    found = cgroup.parent(tmp_path / "mountinfo", tmp_path / "cgroup")
    assert found == ("" if made is None else str(point / made))


def test_no_control_groups_at_all(tmp_path):
    assert cgroup.parent(tmp_path / "none", tmp_path / "none") == ""
    assert cgroup.populated(str(tmp_path)) is None
    assert cgroup.make(str(tmp_path / "none"), "x") == ""
    assert cgroup.members(str(tmp_path / "none")) == frozenset()
    assert cgroup.kill(str(tmp_path / "none")) is False
