"""What ``api/connection.py`` uses of uvicorn that uvicorn does not promise; run it before moving the pin."""

from __future__ import annotations

import inspect

import pytest
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState as Theirs

from qinglong.api.connection import Connection, ServerState
from qinglong.effects import SystemClock


def test_our_state_has_what_theirs_has():
    ours, theirs = ServerState(SystemClock()), Theirs()
    assert set(vars(theirs)) <= set(dir(ours))
    assert isinstance(ours.default_headers, list) and ours.default_headers[0][0] == b"date"


def test_the_protocol_is_made_as_uvicorns_server_makes_it():
    assert list(inspect.signature(HttpToolsProtocol.__init__).parameters) == [
        *("self", "config", "server_state", "app_state"),
        "_loop",
    ]


@pytest.mark.parametrize(
    "name",
    [
        *("connection_made", "connection_lost", "data_received", "on_message_begin", "on_headers_complete"),
        *("on_message_complete", "on_response_complete", "shutdown", "timeout_keep_alive_handler"),
        *("send_400_response", "_unsupported_upgrade_warning", "pause_writing", "resume_writing"),
    ],
)
def test_what_is_overridden_exists(name):
    ours, theirs = getattr(Connection, name), getattr(HttpToolsProtocol, name)
    assert ours is not theirs
    assert len(inspect.signature(ours).parameters) == len(inspect.signature(theirs).parameters)


def test_the_attributes_that_are_read_exist():
    config = Config(
        "x:y", http=HttpToolsProtocol, ws="none", lifespan="off", log_config=None, access_log=False
    )
    config.loaded, config.loaded_app, config.ws_protocol_class = True, None, None
    config.interface = "asgi3"
    made = HttpToolsProtocol(config, Theirs(), {}, object())
    for name in ("cycle", "pipeline", "connections", "tasks", "timeout_keep_alive_task", "transport", "loop"):
        assert hasattr(made, name), name
    assert "self.response_complete" in inspect.getsource(RequestResponseCycle)
    source = inspect.getsource(HttpToolsProtocol)
    for used in (
        "on_response=self.on_response_complete",
        "self.timeout_keep_alive_handler",
        "send_400_response(msg)",
    ):
        assert used in source, used
