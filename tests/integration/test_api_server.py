"""The server itself: bounds against bad clients (I10), long polls, an orderly stop, and silence while idle."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
import uvloop

from api_support import RUN_ID, T0, TOKEN, WITHIN_S, FakeControl, an_api, everything, serving
from qinglong.api import body, bounds
from qinglong.api.server import bind, serve
from qinglong.control.service import LogChunk
from qinglong.errors import Unavailable
from qinglong.limits import REQUEST_BYTES

V1 = "/api/v1"
AUTH = f"Authorization: Bearer {TOKEN}\r\n"
HEAD = f"Host: localhost\r\n{AUTH}"
POLL = f"GET {V1}/runs/{RUN_ID}/changes?after=2&wait_ms=30000 HTTP/1.1\r\n{HEAD}\r\n".encode()


@pytest.fixture
def served():
    with serving() as running:
        yield running


def status(answer):
    return int(answer.split(b" ", 2)[1])


def post(rest):
    return f"POST {V1}/runs HTTP/1.1\r\n{HEAD}Content-Type: application/json\r\n{rest}\r\n".encode()


# Bodies


def test_the_largest_body_is_read_and_one_byte_more_is_not(served):
    filler = REQUEST_BYTES - len('{"task": ""}')
    headers = {"Content-Type": "application/json"}
    for more, wanted in ((0, 422), (1, 413)):
        sent = b'{"task": "%s"}' % (b"x" * (filler + more))
        reply = served.ask("POST", f"{V1}/runs", sent, headers=headers)
        assert reply.status == wanted, reply
    assert reply.json["code"] == "body_too_large" and not served.control.calls


def test_a_chunked_body_without_a_length_has_the_same_limit(served):
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    answer = served.raw(
        post("Transfer-Encoding: chunked\r\nConnection: close\r\n") + chunk * 17 + b"0\r\n\r\n"
    )
    assert status(answer) == 413


def test_a_small_chunked_body_is_read(served):
    answer = served.raw(
        post("Transfer-Encoding: chunked\r\nConnection: close\r\n")
        + b'8\r\n{"task":\r\n9\r\n"backup"}\r\n0\r\n\r\n'
    )
    assert status(answer) == 201


def test_an_endless_body_is_cut_off(served, monkeypatch):
    """Not authorised, too: a stranger must not keep the server reading."""
    monkeypatch.setattr(body, "DISCARD_BYTES", 1 << 16)
    with served.connect() as sock:
        sock.sendall(b"POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(1000):
                sock.sendall(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
        answer = everything(sock)
    assert answer == b"" or b"connection: close" in answer


def test_a_refused_large_body_still_gets_its_answer(served):
    """Closing on unread bytes would reset the connection before the client reads why."""
    for size in (2_000_000, 3_000_000):
        reply = served.ask("POST", f"{V1}/runs", b"x" * size, headers={"Content-Type": "application/json"})
        assert reply.status == 413
        assert served.ask("POST", f"{V1}/runs", b"x" * size, token=None).status == 401


def test_a_slow_body_is_timed_out(served, monkeypatch):
    monkeypatch.setattr(body, "BODY_MS", 50)
    monkeypatch.setattr(body, "DISCARD_MS", 10)
    answer = served.raw(post("Content-Length: 10\r\n") + b"{")
    assert status(answer) == 408 and b"connection: close" in answer


def test_expect_continue_is_asked_for_only_if_wanted(served):
    answer = served.raw(
        post("Content-Length: 18\r\nExpect: 100-continue\r\nConnection: close\r\n") + b'{"task": "backup"}'
    )
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 ")
    answer = served.raw(post(f"Content-Length: {REQUEST_BYTES + 1}\r\nExpect: 100-continue\r\n"))
    assert status(answer) == 413 and b"connection: close" in answer


# Heads and connections


@pytest.mark.parametrize(
    "junk",
    [
        *(
            b"\x16\x03\x01\x02\x00\x01",
            b"SSH-2.0-x\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET /\xff HTTP/1.1\r\n\r\n",
        ),
        *(b"GET * HTTP/1.1\r\nConnection: close\r\n\r\n", b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"),
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused_and_closed(served, junk):
    answer = served.raw(junk)
    assert status(answer) == 400
    assert b"connection: close" in answer and b"application/problem+json" in answer
    assert served.get("/healthz").status == 200


@pytest.mark.parametrize(
    ("start", "more"), [(b"GET /", b"x"), (b"GET / HTTP/1.1\r\nX: ", b"x"), (b"", b"\r\n")]
)
def test_a_head_without_end_is_refused(served, start, more):
    with served.connect() as sock:
        with contextlib.suppress(ConnectionError):
            sock.sendall(start)
            for _ in range(400):
                sock.sendall(more * 4096)
        answer = everything(sock)
    assert answer == b"" or status(answer) in {400, 431}
    assert served.get("/healthz").status == 200


def test_a_big_head_of_a_good_request_is_fine(served):
    assert served.get("/healthz", headers={"X-Filler": "x" * 20_000}).status == 200


@pytest.mark.parametrize("start", [b"", b"GET /healthz HTTP/1.1\r\nHost: lo"])
def test_a_silent_or_slow_head_is_timed_out(monkeypatch, start):
    monkeypatch.setattr(bounds, "HEAD_MS", 50)
    with serving() as served:
        assert status(served.raw(start)) == 408


def test_a_slow_head_on_a_used_connection_is_timed_out_too(monkeypatch):
    monkeypatch.setattr(bounds, "HEAD_MS", 50)
    with serving() as served, served.connect() as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert sock.recv(4096).startswith(b"HTTP/1.1 200")
        sock.sendall(b"G")
        assert status(everything(sock)) == 408


def test_a_long_answer_is_not_a_slow_head(monkeypatch):
    """The next request's head may wait while we are the slow side."""
    monkeypatch.setattr(bounds, "HEAD_MS", 20)
    with serving() as served, served.connect() as sock:
        sock.sendall(POLL + b"GET /hea")
        assert served.control.waiting.wait(WITHIN_S)
        assert not served.control.left.wait(0.1)
        served.call(served.control.advance)
        assert sock.recv(65_536).startswith(b"HTTP/1.1 200")


def test_an_idle_connection_is_closed(monkeypatch):
    monkeypatch.setattr(bounds, "KEEP_ALIVE_MS", 1000)
    with serving() as served, served.connect() as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert everything(sock).startswith(b"HTTP/1.1 200")


def test_too_many_connections_are_told_so():
    with serving(connections=3) as served, contextlib.ExitStack() as stack:
        for _ in range(3):
            sock = stack.enter_context(served.connect())
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert sock.recv(4096).startswith(b"HTTP/1.1 200")
        assert status(served.raw(b"")) == 503
        sock.close()
        served.on_loop(_until(lambda: len(served.server.state.connections) < 3))
        assert served.get("/healthz").status == 200


async def _until(true):
    async with asyncio.timeout(WITHIN_S):
        while not true():
            await asyncio.sleep(0)


def test_pipelined_requests_are_answered_in_order_and_bounded(served):
    one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = served.raw(one * 5 + last)
    assert answer.count(b"HTTP/1.1 200") == 6 and answer.rindex(b"ready") > answer.rindex(b"alive")
    flood = served.raw(one * 5_000)
    assert flood.count(b"HTTP/1.1 200") < 5_000
    assert served.get("/healthz").status == 200


class Endless:
    """A log of which each piece is more than any kernel buffers."""

    async def read(self, run_id, step, number, offset, limit):
        return LogChunk(b"x" * (32 << 20), 0, 32 << 20, False)


@pytest.mark.parametrize("close", ["", "Connection: close\r\n"])
def test_a_client_that_does_not_read_is_dropped(monkeypatch, close):
    monkeypatch.setattr(bounds, "TAKE_MS", 50)
    control = FakeControl()
    control.logs = Endless()
    with serving(control) as served, served.connect() as sock:
        sock.sendall(f"GET {V1}/runs/{RUN_ID}/log HTTP/1.1\r\n{HEAD}{close}\r\n".encode())
        served.on_loop(_until(lambda: served.server.state.total_requests))
        served.on_loop(_until(lambda: not served.server.state.connections))


def test_a_client_that_reads_late_gets_everything():
    control = FakeControl()
    control.logs = Endless()
    with serving(control) as served:
        assert len(served.get(f"{V1}/runs/{RUN_ID}/log").body) == 32 << 20


def test_an_upgrade_is_ignored(served):
    answer = served.raw(
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert status(answer) == 200


# Long polls


def test_a_long_poll_answers_as_soon_as_there_is_something(served):
    with served.connect() as sock:
        sock.sendall(POLL)
        assert served.control.waiting.wait(WITHIN_S)
        served.call(served.control.advance)
        answer = sock.recv(65_536)
    assert status(answer) == 200 and b'"version":3' in answer and b'"kind":"admitted"' not in answer


def test_a_long_poll_ends_with_its_time_and_without_one_does_not_wait(served):
    for query in ("after=2", "after=2&wait_ms=1"):
        reply = served.get(f"{V1}/runs/{RUN_ID}/changes?{query}")
        assert (reply.status, reply.json["events"]) == (200, [])
    assert [event["at_ms"] for event in served.get(f"{V1}/runs/{RUN_ID}/changes").json["events"]] == [
        T0,
        T0 + 9,
    ]


def test_a_long_poll_ends_when_the_client_goes(served):
    with served.connect() as sock:
        sock.sendall(POLL)
        assert served.control.waiting.wait(WITHIN_S)
    assert served.control.left.wait(WITHIN_S)
    served.on_loop(_until(lambda: not served.server.state.tasks))


# Stopping


def test_a_stop_ends_long_polls_at_once_with_an_answer(served):
    with served.connect() as sock, served.connect() as idle:
        sock.sendall(POLL)
        assert served.control.waiting.wait(WITHIN_S)
        before = served.loop.time()
        served.on_loop(served.server.stop(grace_ms=60_000))
        assert served.loop.time() - before < 5
        answer = everything(sock)
        assert status(answer) == 200 and b"connection: close" in answer
        assert everything(idle) == b""
    with pytest.raises(ConnectionRefusedError):
        served.connect()


def test_a_stop_does_not_wait_for_a_stuck_request(served, caplog):
    """Also not for one whose body never comes."""
    with served.connect() as stuck:
        stuck.sendall(post("Content-Length: 10\r\n") + b"{")
        served.on_loop(_until(lambda: served.server.state.tasks))
        served.on_loop(served.server.stop(grace_ms=20))
        answer = everything(stuck)
    assert answer == b"" or status(answer) in {408, 503}
    assert not served.server.state.connections and not served.server.state.tasks


def test_a_stop_lets_a_request_in_progress_finish(served):
    with served.connect() as sock:
        sock.sendall(post("Content-Length: 18\r\n"))
        served.on_loop(_until(lambda: served.server.state.tasks))
        stopping = asyncio.run_coroutine_threadsafe(served.server.stop(grace_ms=60_000), served.loop)
        sock.sendall(b'{"task": "backup"}')
        assert status(everything(sock)) == 201
        stopping.result(WITHIN_S)


# Binding


def test_an_address_in_use_is_said_with_a_remedy(served):
    with pytest.raises(Unavailable) as raised:
        bind("127.0.0.1", served.port)
    assert raised.value.code == "address_in_use"
    assert f"127.0.0.1:{served.port}" in str(raised.value) and raised.value.remedy


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "300.1.1.1"])
def test_an_unusable_address_is_said(host):
    with pytest.raises(Unavailable, match="cannot listen on") as raised:
        bind(host, 0)
    assert raised.value.code == "address_unusable"


def test_port_0_gives_a_real_port_and_an_ipv6_url():
    bound = bind("127.0.0.1", 0)
    assert bound.port > 0 and bound.url == f"http://127.0.0.1:{bound.port}"
    assert bound._replace(host="::1").url == f"http://[::1]:{bound.port}"
    bound.socket.close()


# Idle


class Counting(uvloop.Loop):
    """uvloop that remembers every timer it was asked for."""

    def __init__(self):
        super().__init__()
        self.timers = []

    def call_later(self, *args, **rest):
        self.timers.append(super().call_later(*args, **rest))
        return self.timers[-1]

    def call_at(self, *args, **rest):
        self.timers.append(super().call_at(*args, **rest))
        return self.timers[-1]

    def left(self):
        return [timer for timer in self.timers if not timer.cancelled()]


def test_an_idle_server_has_no_timer_and_no_task():
    """uvicorn's own server would wake ten times a second; the budget of an idle process is 0.2 % of a CPU."""

    async def main():
        loop = asyncio.get_running_loop()
        server = await serve(an_api(FakeControl()), "127.0.0.1", 0)
        assert loop.timers == [] and asyncio.all_tasks() == {asyncio.current_task()}
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await reader.read(4096)).startswith(b"HTTP/1.1 200")
        assert len(loop.left()) == 1, "keep-alive, once"
        writer.close()
        await _until(lambda: not server.state.connections)
        assert loop.left() == [] and asyncio.all_tasks() == {asyncio.current_task()}
        await server.stop()

    with asyncio.Runner(loop_factory=Counting) as runner:
        runner.run(main())


def test_it_serves_on_the_standard_loop_too():
    async def main():
        server = await serve(an_api(FakeControl()), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()
        await server.stop()

    asyncio.run(main())
