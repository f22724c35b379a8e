"""Several job files as one file set, and files that cannot be read."""

from __future__ import annotations

import os

import pytest

from qinglong.limits import JOB_FILE_BYTES
from qinglong.wire.jobfile import load_files


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Writes files into an empty working directory and reads them as one set."""
    monkeypatch.chdir(tmp_path)

    def read(**texts: str | bytes):
        for name, text in texts.items():
            path = tmp_path / f"{name}.yaml"
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_files([f"{name}.yaml" for name in texts], machine_zone="UTC")

    return read


def test_files_become_one_set_in_the_order_in_which_they_are_named(files, tmp_path):
    found, problems = files(
        b="version: 1\nconcurrency_groups: {db: 1}\ntasks: {two: {run: x}, one: {run: x}}",
        a="version: 1\ndefaults: {timeout: 1h}\ntimezone: Asia/Tokyo\n"
        'tasks: {three: {run: x, concurrency: db, schedule: "0 3 * * *"}}',
    )
    assert problems == []
    assert [spec.name for spec in found.tasks] == ["two", "one", "three"]
    assert found.concurrency_groups == {"db": 1}
    assert [spec.timeout_ms for spec in found.tasks] == [None, None, 3_600_000]
    assert found.tasks[2].triggers[0].zone == "Asia/Tokyo"
    assert found.tasks[0].cwd == str(tmp_path)


def test_a_task_in_two_files_names_both_places(files):
    _, problems = files(
        a="version: 1\ntasks:\n  x: {run: a}\n",
        b="version: 1\ntasks:\n  y: {run: a}\n  x: {run: b}\n",
    )
    assert [(p.path, p.line, p.field, p.code) for p in problems] == [
        ("b.yaml", 4, "tasks.x", "duplicate_task")
    ]
    assert "a.yaml:3" in problems[0].message
    assert problems[0].remedy


def test_files_of_different_projects_are_no_set(files):
    _, problems = files(a="version: 1\nproject: one\ntasks: {}", b="version: 1\ntasks: {}")
    assert [(p.path, p.code) for p in problems] == [("b.yaml", "project")]


def test_a_group_has_one_size_in_a_set(files):
    text = "version: 1\nconcurrency_groups: {db: %d}\ntasks: {}"
    assert files(a=text % 2, b=text % 2)[1] == []
    _, problems = files(a=text % 2, b=text % 3)
    assert [(p.path, p.line, p.code) for p in problems] == [("b.yaml", 2, "duplicate_group")]
    assert "a.yaml:2" in problems[0].message


def test_the_problems_of_all_files_come_in_the_order_of_the_files(files):
    _, problems = files(z="version: 1\ntasks: {a: {run: ''}}", a="nonsense", m=b"\xff")
    assert [(p.path, p.code) for p in problems] == [
        ("z.yaml", "no_value"),
        ("a.yaml", "wrong_kind"),
        ("m.yaml", "not_utf8"),
    ]


def test_not_utf8_has_a_place(files):
    _, problems = files(a="version: 1\ntasks:\n  é: ".encode() + b"\xe9")
    assert [(p.line, p.column, p.code) for p in problems] == [(3, 6, "not_utf8")]


def test_a_byte_order_mark_is_not_content(files):
    assert files(a=b"\xef\xbb\xbfversion: 1\ntasks: {}")[1] == []


def test_utf16_is_refused_with_a_remedy(files):
    _, problems = files(a="version: 1".encode("utf-16"))
    assert problems[0].code == "not_utf8"
    assert "UTF-8" in problems[0].remedy


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("missing.yaml", "no_such_file"),
        (".", "is_folder"),
        ("a.yaml/b", "unreadable_file"),
        ("\0", "unreadable_file"),
        ("x" * 300, "unreadable_file"),
    ],
)
def test_a_path_that_is_no_file_is_a_problem(tmp_path, monkeypatch, path, code):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text("version: 1\ntasks: {}")
    found, problems = load_files(["a.yaml", path], machine_zone="UTC")
    assert found is None
    assert [(p.path, p.line, p.code) for p in problems] == [(path, 0, code)]
    assert problems[0].remedy


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_a_file_without_permission_is_a_problem(tmp_path):
    path = tmp_path / "a.yaml"
    path.touch(mode=0)
    _, problems = load_files([str(path)], machine_zone="UTC")
    assert problems[0].code == "unreadable_file"


def test_i10_a_huge_or_endless_file_is_not_read_to_its_end(tmp_path):
    path = tmp_path / "a.yaml"
    with path.open("wb") as stream:
        stream.truncate(JOB_FILE_BYTES * 1_000)
    for endless in (str(path), "/dev/zero"):
        _, problems = load_files([endless], machine_zone="UTC")
        assert [p.code for p in problems] == ["too_large"]


def test_the_same_file_twice_is_said_once(files, tmp_path):
    os.symlink("a.yaml", tmp_path / "b.yaml")
    (tmp_path / "a.yaml").write_text("version: 1\ntasks: {x: {run: x}}")
    _, problems = load_files(["a.yaml", "a.yaml", "b.yaml"], machine_zone="UTC")
    assert [(p.path, p.code) for p in problems] == [("a.yaml", "repeated_file"), ("b.yaml", "repeated_file")]


def test_no_files_are_no_set():
    assert load_files([], machine_zone="UTC") == (None, [])
