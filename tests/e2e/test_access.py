"""Nobody gets in: every route of a real server without its token, in odd spellings too, and no known secret."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import stat
from collections.abc import Callable, Iterator

from qinglong.api.routes import ROUTES
from support.server import Server, diary, jobs

SENTINEL = "sentinel-of-stored-data"
SETUP = (
    "setup",
    "init",
    "initialize",
    "install",
    "bootstrap",
    "register",
    "login",
    "users",
    "user/init",
    "tokens",
    "auth",
)


def _spellings(path: str) -> Iterator[str]:
    """A path as somebody writes it who hopes that two parts of a server read it differently."""
    head, _, last = path.rpartition("/")
    yield path
    yield path.upper()
    yield path.swapcase().replace("RUNS", "Runs")
    yield path.replace("/", "//")
    yield f"//{path}"
    yield f"{path}/"
    yield f"{path}//"
    yield f"{path};a=b"
    yield f"{path}/."
    yield f"{path}/%2e"
    yield f"{path}%2f"
    yield f"{head}/./{last}"
    yield f"{head}/%2e/{last}"
    yield f"{head}/x/../{last}"
    yield f"{head}/x/%2e%2e/{last}"
    yield f"{head}/x/..;/{last}"
    yield f"/healthz/..{path}"
    yield f"/healthz/..;{path}"
    yield f"/healthz/%2e%2e{path}"
    yield f"/healthz%2f..{path}"
    yield f"{head}/{last.replace(last[:1], f'%{ord(last[0]):02x}', 1)}"
    yield f"{head}%2f{last}"
    yield f"{head}\\{last}"
    yield f"{path}%00"
    yield f"{path}%20"
    yield f"{path}?token=x"
    yield f"{path}.json"


def test_case_73_no_spelling_of_any_route_gives_data_without_a_token(serve: Callable[..., Server]) -> None:
    """401 or 404 (or the refusal of a malformed request), never data, and nothing is changed."""
    server = serve(jobs(**{SENTINEL: diary(f"echo {SENTINEL}")})).start()
    run = server.admit(SENTINEL)
    server.until(run)
    before = server.http("GET", "/api/v1/runs")[2]
    public = {route.path for route in ROUTES if route.permission == "public"}
    assert public == {"/healthz", "/readyz"}
    for route in ROUTES:
        path = route.path.format(run=run, name=SENTINEL)
        for spelling in _spellings(path):
            for method in {route.method, "GET", "POST", "HEAD"}:
                body = {"task": SENTINEL} if method == "POST" else None
                status, _, said = server.http(method, spelling, body, token="")
                where = (method, spelling, status, said[:200])
                if path in public and status == 200:
                    assert not said or json.loads(said).keys() <= {"alive", "ready"}, where
                    continue
                assert status in ({400, 401, 404, 405} if path in public else {400, 401, 404}), where
                assert SENTINEL.encode() not in said.replace(spelling.encode(), b""), where
    assert server.http("GET", "/api/v1/runs")[2] == before


def test_case_73_a_wrong_token_is_none(serve: Callable[..., Server]) -> None:
    """However it is given: wrong, cut, doubled, empty, of another scheme, in the address."""
    server = serve(jobs(t="true")).start()
    token = server.token
    assert server.http("GET", "/api/v1/runs")[0] == 200
    for field in (
        "Bearer",
        "Bearer ",
        f"Bearer {token[:-1]}",
        f"Bearer {token}x",
        f"Bearer {token}, Bearer {token}",
        f"Basic {token}",
        token,
        f"Bearer {token.swapcase()}",
        f"Bearer {'x' * len(token)}",
    ):
        status, headers, _ = server.http("GET", "/api/v1/runs", headers={"Authorization": field}, token="")
        assert status == 401, field
        assert headers["www-authenticate"].lower().startswith("bearer")
    for path in (f"/api/v1/runs?token={token}", f"/api/v1/runs?access_token={token}"):
        assert server.http("GET", path, token="")[0] == 401
    elsewhere = server.ql(
        "runs", "--server", f"http://127.0.0.1:{server.address[1]}", "--token-file", "say.sh"
    )
    assert elsewhere.code in {2, 7}
    assert token not in elsewhere.err


def test_case_73_a_foreign_host_name_is_not_answered(serve: Callable[..., Server]) -> None:
    """A web page cannot reach the API through a name of its own, even with the token."""
    server = serve(jobs(t="true")).start()
    for host in ("evil.example", "127.0.0.1.evil.example", ""):
        status, _, said = server.http("GET", "/api/v1/tasks", headers={"Host": host})
        assert status in {400, 421}, host
        assert b'"tasks"' not in said


def test_case_74_no_set_up_route_answers_on_an_initialised_server(serve: Callable[..., Server]) -> None:
    """There is none: refused without a token, unknown with it; the token and the tasks stay as they are."""
    server = serve(jobs(t="true")).start()
    token, tasks = server.token, server.get("/tasks")
    for name in SETUP:
        for path in (f"/{name}", f"/api/{name}", f"/api/v1/{name}", f"/open/{name}"):
            for method in ("GET", "POST", "PUT", "DELETE"):
                body = {"username": "admin", "password": "admin"} if method in {"POST", "PUT"} else None
                assert server.http(method, path, body, token="")[0] in {401, 403, 404}, (method, path)
                assert server.http(method, path, body)[0] in {403, 404}, (method, path)
    server.restart()
    assert server.token == token
    assert server.get("/tasks") == tasks


def test_case_75_every_server_has_a_secret_of_its_own_and_refuses_a_known_one(
    serve: Callable[..., Server],
) -> None:
    """Random, readable by its owner only, never printed; a weak or exposed one is refused with exit 4."""
    first, second = serve(jobs(t="env; cat /proc/$PPID/environ")).start(), serve(jobs(t="true")).start()
    assert first.token != second.token
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", first.token)
    file = first.data / "token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(first.data.stat().st_mode) == 0o700
    # Neither the server's words nor a job's environment give it away.
    run = first.admit("t")
    first.until(run)
    token = first.token
    first.stop()
    assert token not in first.out + first.err
    assert token.encode() not in next(first.data.glob(f"attempts/{run}/*.log")).read_bytes()
    second.stop()
    for known in ("changeme", "admin", "", "qinglong", "a" * 64, "short", "0123" * 16):
        file.write_text(known)
        refused = first.up_refused()
        assert refused.code == 4, (known, refused)
        assert str(file) in refused.err
        assert not known or f"'{known}'" not in refused.err
    file.write_text(token)
    file.chmod(0o644)
    exposed = first.up_refused()
    assert exposed.code == 4
    assert "chmod 600" in exposed.err
    file.chmod(0o600)
    assert first.start().token == token


def test_after_a_crash_no_stranger_on_the_old_port_gets_the_token(tmp_path):
    heard: list[bytes] = []
    with Server(tmp_path, jobs(t=diary())) as server:
        server.start()
        host, port = server.address
        server.crash()
        with socket.create_server((host, port)) as stranger:
            stranger.settimeout(0.2)
            ended = server.ql("runs")
            with contextlib.suppress(TimeoutError):
                heard.append(stranger.accept()[0].recv(4096))
    assert ended.code == 5
    assert "ql is not running on" in ended.err
    assert not heard, "a connection was made to whoever has the port now"
