"""The servers that tests, benchmarks and the demo start: private, not root's, gone with their starter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from devel.postgres import Postgres, available, binaries

VERSIONS = sorted(available())
ROOT = Path(__file__).parents[2]


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_is_reached_by_socket_and_by_tcp_and_does_not_run_as_root(version):
    with Postgres.create(version=version) as server:
        assert server.version == version
        for tcp in (False, True):
            with psycopg.connect(server.dsn(tcp=tcp)) as db:
                assert db.execute("SELECT 1").fetchone() == (1,)
        assert os.stat(f"/proc/{server.pid}").st_uid != 0
        place = server.data
    assert not place.exists()


def test_a_killed_server_starts_again_with_what_was_committed():
    with Postgres.create() as server:
        server.sql("CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)")
        server.kill()
        server.start()
        assert server.sql("SELECT n FROM kept") == "1"


def test_a_paused_server_is_silent_and_goes_on():
    with Postgres.create() as server, psycopg.connect(server.dsn(), autocommit=True) as db:
        server.pause()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(server.dsn(tcp=True), connect_timeout=1)
        server.resume()
        assert db.execute("SELECT 2").fetchone() == (2,)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_standby_follows_and_takes_over_on_a_new_timeline(version):
    with Postgres.create(version=version) as primary:
        primary.sql("CREATE TABLE kept (n int)")
        with primary.standby() as standby:
            primary.sql("INSERT INTO kept VALUES (7)")
            until(lambda: standby.sql("SELECT n FROM kept") == "7")
            primary.stop(signal.SIGQUIT)
            standby.promote()
            standby.sql("INSERT INTO kept VALUES (8)")
            assert (
                standby.sql("SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)") == "00000002"
            )


def test_a_server_dies_with_who_started_it():
    program = (
        "import time; from devel.postgres import Postgres; s = Postgres.create().start();"
        "print(s.pid, s.data, s.sockets, flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    pid, data, sockets = child.stdout.readline().split()
    child.kill()
    child.wait()
    child.stdout.close()
    until(lambda: not Path(f"/proc/{pid}/cwd").exists())
    subprocess.run(["rm", "-rf", str(Path(data).parent), sockets], check=True)


def test_programs_that_are_missing_are_named_with_the_remedy():
    with pytest.raises(LookupError, match="QL_PG_BIN"):
        binaries(9)
