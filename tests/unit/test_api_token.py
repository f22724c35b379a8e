"""The local token (case 75): no default exists, a bad one is refused, and its file is its owner's alone."""

from __future__ import annotations

import os
import stat

import pytest

from qinglong.api.token import load_token, read_token, weakness
from qinglong.effects import SystemRng
from qinglong.errors import NotFound, Refused, Unavailable


def test_the_first_start_makes_a_random_token(tmp_path):
    token = load_token(tmp_path, SystemRng())
    path = tmp_path / "token"
    assert len(token) == 43 and not weakness(token)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == f"{token}\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["token"], "no draft stays behind"
    other = tmp_path / "other"
    other.mkdir()
    assert load_token(other, SystemRng()) != token


def test_later_starts_keep_it(tmp_path):
    token = load_token(tmp_path, SystemRng())
    assert load_token(tmp_path, SystemRng()) == read_token(tmp_path / "token") == token


def test_the_mode_does_not_depend_on_the_umask(tmp_path):
    before = os.umask(0)
    try:
        load_token(tmp_path, SystemRng())
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


def test_a_token_that_another_start_made_meanwhile_wins(tmp_path):
    class Racing(SystemRng):
        """Another process finishes between our look and our link."""

        def token_bytes(self, count):
            path = tmp_path / "token"
            if not path.exists():
                path.write_text("0123456789abcdefghijklmnopqrstuvwxyz\n")
                path.chmod(0o600)
            return super().token_bytes(count)

    assert load_token(tmp_path, Racing()) == "0123456789abcdefghijklmnopqrstuvwxyz"
    assert [entry.name for entry in tmp_path.iterdir()] == ["token"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o666, 0o610, 0o601, 0o777])
def test_an_exposed_file_is_refused(tmp_path, mode):
    load_token(tmp_path, SystemRng())
    (tmp_path / "token").chmod(mode)
    with pytest.raises(Refused) as raised:
        load_token(tmp_path, SystemRng())
    assert raised.value.code == "token_exposed" and "chmod 600" in raised.value.remedy


@pytest.mark.parametrize(
    "text",
    [
        *("", "admin", "ADMIN", "changeme", "password", "secret", "token", "qinglong", "123456", "x" * 31),
        *(
            "a" * 32,
            "0" * 64,
            "changeme" * 4,
            "admin" * 7,
            "1234567890" * 4,
            "ab" * 20,
            "abcdefg" * 5 + "abc",
        ),
        *(
            "abcdefghijklmnop abcdefghijklmnop",
            "abcdefghijklmnopqrstuvwxyz\n0123456789",
            "ü" * 5 + "abcdefghijklmnopqrstuvwxyz01",
        ),
        *("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "x" * 5000),
    ],
)
def test_case_75_a_weak_or_known_token_is_refused(tmp_path, text):
    path = tmp_path / "token"
    path.write_text(f"{text}\n")
    path.chmod(0o600)
    with pytest.raises(Refused) as raised:
        load_token(tmp_path, SystemRng())
    assert raised.value.code == "token_weak" and "delete the file" in raised.value.remedy
    assert not text or text not in raised.value.message.removeprefix("the token "), (
        "the message must not show the token"
    )
    assert path.read_text() == f"{text}\n", "and it is not replaced behind the owner's back"


def test_a_good_token_of_ones_own_is_accepted(tmp_path):
    path = tmp_path / "token"
    for text in ("5f2b8c1d9e3a7046b8d2f1c35e9a7b04", "correct-horse-battery-staple-2026"):
        path.write_text(text)
        path.chmod(0o600)
        assert read_token(path) == text


def test_what_is_no_file_is_refused_and_what_is_missing_is_said(tmp_path):
    with pytest.raises(NotFound, match="no token file"):
        read_token(tmp_path / "token")
    (tmp_path / "token").mkdir(0o700)
    with pytest.raises(Refused, match="not a regular file"):
        load_token(tmp_path, SystemRng())
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(Refused, match="not a regular file"):
        read_token(tmp_path / "pipe")


def test_a_folder_that_is_not_there_is_unavailable(tmp_path):
    with pytest.raises(Unavailable, match="cannot write the token"):
        load_token(tmp_path / "nowhere", SystemRng())
