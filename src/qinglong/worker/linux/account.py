"""Whom a command runs as. Source: passwd(5), initgroups(3)."""

from __future__ import annotations

import os
import pwd
from functools import cache
from typing import NamedTuple

from qinglong.worker.host import StartFailed


class Account(NamedTuple):
    """One account of this machine; ``switch``: is it another one than the worker's?"""

    name: str
    uid: int
    gid: int
    home: str
    shell: str
    switch: bool

    @property
    def groups(self) -> list[int]:
        """The account's groups, as initgroups(3) would set them."""
        return os.getgrouplist(self.name, self.gid)


def resolve(user: str) -> Account:
    """The account called ``user``, the worker's own if that is empty; raises :class:`StartFailed`."""
    if not user:
        return _own()
    try:
        entry = pwd.getpwnam(user)
    except (KeyError, ValueError):
        raise StartFailed(f"user {user!r}: this machine has no such account") from None
    if entry.pw_uid == os.geteuid():
        return _account(entry, switch=False)
    if os.geteuid() != 0:
        raise StartFailed(f"user {user!r}: only a worker that runs as root can switch to another account")
    return _account(entry, switch=True)


@cache
def _own() -> Account:
    """The worker's account, asked for once: a look-up reads files.

    It need not have an entry: containers run under bare numbers.
    """
    uid = os.geteuid()
    try:
        return _account(pwd.getpwuid(uid), switch=False)
    except KeyError:
        return Account(str(uid), uid, os.getegid(), os.environ.get("HOME", "/"), "/bin/sh", switch=False)


def _account(entry: pwd.struct_passwd, *, switch: bool) -> Account:
    shell = entry.pw_shell or "/bin/sh"
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir or "/", shell, switch)
