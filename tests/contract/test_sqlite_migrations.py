"""Migrations: numbered, checked, each whole or not at all; a schema that is not ours is refused."""

from __future__ import annotations

import apsw
import pytest

from qinglong.errors import Damaged, Refused
from qinglong.ledger.sqlite.migrate import files, migrate, newest


@pytest.fixture
def db():
    connection = apsw.Connection(":memory:")
    yield connection
    connection.close()


@pytest.fixture
def folder(tmp_path):
    def write(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name[1:]}.sql").write_text(text, encoding="utf-8")
        return tmp_path

    return write


def schema(db):
    return db.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


def test_the_first_start_makes_the_schema_and_the_second_changes_nothing(db):
    assert migrate(db, 7) == [name for _, name, _ in files()]
    before = schema(db)
    assert migrate(db, 8) == []
    assert schema(db) == before
    assert db.execute("SELECT DISTINCT applied_ms FROM schema_version").fetchall() == [(7,)]


def test_numbers_are_dense_and_names_say_before_or_after():
    found = files()
    assert [number for number, _, _ in found] == list(range(1, len(found) + 1))
    assert all(name[5:].startswith(("pre_", "post_")) for _, name, _ in found)
    assert newest() == len(found)


def test_only_what_is_missing_is_applied_in_its_order(db, folder):
    migrate(db, 1, folder(_0001_pre_a="CREATE TABLE a (x)"))
    done = migrate(db, 2, folder(_0003_post_c="ALTER TABLE b ADD COLUMN y", _0002_pre_b="CREATE TABLE b (x)"))
    assert done == ["0002_pre_b", "0003_post_c"]
    assert db.execute("SELECT number, applied_ms FROM schema_version ORDER BY number").fetchall() == [
        (1, 1),
        (2, 2),
        (3, 2),
    ]


def test_an_applied_file_that_was_changed_is_refused_and_nothing_is_done(db, folder):
    migrate(db, 1, folder(_0001_pre_a="CREATE TABLE a (x)"))
    before = schema(db)
    with pytest.raises(Damaged) as caught:
        migrate(db, 2, folder(_0001_pre_a="CREATE TABLE a (y)", _0002_pre_b="CREATE TABLE b (x)"))
    assert caught.value.code == "schema_changed"
    assert schema(db) == before


def test_a_newer_schema_is_refused_and_says_what_to_do(db):
    migrate(db, 1)
    number = newest() + 1
    db.execute("INSERT INTO schema_version VALUES (?, 'x', 'y', 1)", (number,))
    before = schema(db)
    with pytest.raises(Refused) as caught:
        migrate(db, 2)
    assert caught.value.code == "schema_newer"
    assert str(number) in caught.value.message
    assert caught.value.remedy
    assert schema(db) == before


def test_a_migration_that_fails_leaves_nothing_and_can_be_repeated(db, folder):
    with pytest.raises(apsw.SQLError):
        migrate(db, 1, folder(_0001_pre_a="CREATE TABLE a (x); CREATE TABLE b (x); CREATE TABLE a (x)"))
    assert [name for name, _ in schema(db) if name in {"a", "b"}] == []
    assert db.execute("SELECT count(*) FROM schema_version").fetchall() == [(0,)]
    assert migrate(db, 2, folder(_0001_pre_a="CREATE TABLE a (x); CREATE TABLE b (x)")) == ["0001_pre_a"]


def test_a_failure_keeps_the_migrations_before_it(db, folder):
    texts = {"_0001_pre_a": "CREATE TABLE a (x)", "_0002_pre_b": "CREATE TABLE a (x)"}
    with pytest.raises(apsw.SQLError):
        migrate(db, 1, folder(**texts))
    assert db.execute("SELECT number FROM schema_version").fetchall() == [(1,)]


def test_files_that_are_no_migrations_are_left_alone(db, folder):
    found = folder(_0001_pre_a="CREATE TABLE a (x)", _readme="no", _1_pre_b="no")
    assert migrate(db, 1, found) == ["0001_pre_a"]
