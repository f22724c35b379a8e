"""fallocate(2) with FALLOC_FL_PUNCH_HOLE, which Python does not offer."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from typing import Any, Final

_PUNCH_HOLE_KEEP_SIZE: Final = 0x02 | 0x01


def punch(fd: int, offset: int, size: int) -> bool:
    """Free ``size`` bytes at ``offset``; what is left of partly covered blocks becomes zeros.

    False where the file system cannot; raises ``OSError`` for anything else.
    """
    if _fallocate()(fd, _PUNCH_HOLE_KEEP_SIZE, ctypes.c_int64(offset), ctypes.c_int64(size)) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EOPNOTSUPP, errno.ENOSYS):
        return False
    raise OSError(code, os.strerror(code))


@functools.cache
def _fallocate() -> Any:
    """The C library's function, with 64-bit offsets also on 32-bit machines."""
    library = ctypes.CDLL(None, use_errno=True)
    function = getattr(library, "fallocate64", None) or library.fallocate
    function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    function.restype = ctypes.c_int
    return function
