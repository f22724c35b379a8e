"""The data folder: made, checked, and held by a kernel lock before anything is opened in it (case 78)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from qinglong.datafolder import DataFolder, filesystem
from qinglong.errors import QingLongError, Refused, Unavailable

HOLD = """
import sys, pathlib
from qinglong.datafolder import DataFolder
DataFolder(pathlib.Path(sys.argv[1])).open()
print("held", flush=True)
sys.stdin.read()
"""
TRY = """
import os, pathlib, sys
from qinglong.errors import QingLongError
from qinglong.datafolder import DataFolder
os.setgid(65534)
os.setuid(65534)
try:
    DataFolder(pathlib.Path(sys.argv[1])).open()
except QingLongError as error:
    print(type(error).__name__, error.code)
"""


def refused(folder):
    with pytest.raises(QingLongError) as caught:
        folder.open()
    return caught.value


def mounts(tmp_path, *lines):
    path = tmp_path / "mountinfo"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def line(point, kind, number=30):
    return f"{number} 1 0:{number} / {point} rw,relatime shared:1 - {kind} source rw"


def test_a_new_folder_is_private_and_a_second_start_finds_it(tmp_path):
    path = tmp_path / "a" / "b"
    folder = DataFolder(path)
    folder.open()
    assert path.stat().st_mode & 0o777 == 0o700
    assert (path / "lock").stat().st_mode & 0o777 == 0o600
    folder.close()
    folder.close()
    DataFolder(path).open()


def test_one_process_at_a_time_holds_it(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        error = refused(DataFolder(tmp_path))
        assert isinstance(error, Unavailable)
        assert (error.code, bool(error.remedy)) == ("data_in_use", True)
    finally:
        holder.kill()
        holder.communicate()
    folder = DataFolder(tmp_path)
    folder.open()
    folder.close()


def test_a_lock_is_given_back_and_kept_meanwhile(tmp_path):
    first, second = DataFolder(tmp_path), DataFolder(tmp_path)
    first.open()
    assert refused(second).code == "data_in_use"
    first.close()
    second.open()
    assert refused(first).code == "data_in_use"
    second.close()


def test_children_do_not_inherit_the_lock(tmp_path):
    folder = DataFolder(tmp_path)
    folder.open()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    try:
        folder.close()
        again = DataFolder(tmp_path)
        again.open()
        again.close()
    finally:
        child.communicate(b"\n")


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "fuse.sshfs", "fuse.rclone"]
)
def test_case_78_a_network_file_system_is_refused_before_anything_is_written(tmp_path, kind):
    path = tmp_path / "data"
    table = mounts(tmp_path, line("/", "ext4", 1), line(path, kind))
    error = refused(DataFolder(path, table))
    assert isinstance(error, Refused)
    assert (error.code, kind in error.message) == ("data_on_network", True)
    assert list(path.iterdir()) == []


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "f2fs", "fuseblk"])
def test_local_file_systems_are_accepted(tmp_path, kind):
    path = tmp_path / "data"
    folder = DataFolder(path, mounts(tmp_path, line("/", "nfs", 1), line(path, kind)))
    folder.open()
    folder.close()


def test_the_innermost_mount_decides_and_among_equals_the_last(tmp_path):
    table = mounts(
        tmp_path,
        line("/", "ext4", 1),
        line("/srv", "nfs", 2),
        line("/srv/local", "xfs", 3),
        line("/srvother", "cifs", 4),
        line("/over", "nfs", 5),
        line("/over", "ext4", 6),
    )

    assert filesystem(Path("/srv/x"), table) == "nfs"
    assert filesystem(Path("/srv/local/x"), table) == "xfs"
    assert filesystem(Path("/srvother"), table) == "cifs"
    assert filesystem(Path("/over/x"), table) == "ext4"
    assert filesystem(Path("/elsewhere"), table) == "ext4"
    assert filesystem(Path("/x"), tmp_path / "missing") == ""


def test_names_with_spaces_are_read_as_the_kernel_writes_them(tmp_path):
    path = tmp_path / "my data"
    table = mounts(tmp_path, line("/", "ext4", 1), line(str(path).replace(" ", "\\040"), "cifs"))
    assert filesystem(path, table) == "cifs"


def test_a_link_into_a_network_file_system_is_seen_through(tmp_path):
    real = tmp_path / "far"
    real.mkdir()
    (tmp_path / "near").symlink_to(real)
    table = mounts(tmp_path, line("/", "ext4", 1), line(real, "nfs4"))
    assert refused(DataFolder(tmp_path / "near", table)).code == "data_on_network"


def test_this_machines_own_mounts_can_be_read(tmp_path):
    assert filesystem(tmp_path) != ""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become somebody else")
@pytest.mark.parametrize("where", ["data", "data/below"])
def test_case_78_a_folder_that_cannot_be_written_is_refused(where):
    with tempfile.TemporaryDirectory() as base:
        Path(base).chmod(0o755)
        (Path(base) / "data").mkdir(mode=0o755)
        done = subprocess.run(
            [sys.executable, "-c", TRY, f"{base}/{where}"], capture_output=True, text=True, check=False
        )
        assert done.stdout == "Refused data_not_writable\n", done.stderr
        assert list((Path(base) / "data").iterdir()) == []


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "data").write_text("")
    assert refused(DataFolder(tmp_path / "data")).code == "data_not_writable"
    assert refused(DataFolder(tmp_path / "data" / "below")).code == "data_not_writable"
