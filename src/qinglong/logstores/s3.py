"""An S3-compatible bucket as a store of logs (library ``minio``, in the extra ``cluster``).

It needs only what every such server has: put, get with a range, list, delete. A conditional put is not needed, as
the names carry digests (ADR 0018): who puts twice puts the same. Listing must be consistent after a put, as it is on
AWS, MinIO, Ceph and Google.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import urllib3
from minio import Minio
from minio.deleteobjects import DeleteObject
from minio.error import MinioException, S3Error
from urllib3.exceptions import HTTPError

from qinglong.control.logstore import unavailable
from qinglong.errors import Invalid

T = TypeVar("T")
_THREADS: Final = 8
"""Requests at once; each takes a thread."""
_CONNECT_S: Final = 5.0
_READ_S: Final = 30.0
_ABSENT: Final = frozenset({"NoSuchKey", "NoSuchObject"})


class S3Objects:
    """``control.logstore.Objects`` in a bucket that exists, below ``prefix``."""

    def __init__(self, client: Minio, bucket: str, prefix: str = "") -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._room = asyncio.Semaphore(_THREADS)

    async def _run(self, work: Callable[[], T]) -> T:
        async with self._room:
            try:
                return await asyncio.to_thread(work)
            except (MinioException, HTTPError, OSError) as error:
                raise unavailable(f"in bucket {self._bucket} cannot be used", error) from error

    async def names(self, folder: str) -> tuple[str, ...]:
        """See the port."""
        prefix = f"{self._prefix}{folder}/"

        def work() -> tuple[str, ...]:
            found = self._client.list_objects(self._bucket, prefix=prefix, recursive=True)
            return tuple((one.object_name or "").removeprefix(prefix) for one in found)

        return await self._run(work)

    async def put(self, folder: str, name: str, data: bytes) -> None:
        """See the port."""

        def work() -> None:
            self._client.put_object(self._bucket, self._path(folder, name), io.BytesIO(data), len(data))

        await self._run(work)

    async def get(self, folder: str, name: str, offset: int, size: int) -> bytes | None:
        """See the port."""
        if size <= 0:
            return b""

        def work() -> bytes | None:
            try:
                reply = self._client.get_object(self._bucket, self._path(folder, name), offset, size)
            except S3Error as error:
                if error.code in _ABSENT:
                    return None
                raise
            try:
                return reply.read()
            finally:
                reply.close()
                reply.release_conn()

        return await self._run(work)

    async def delete(self, folder: str, names: Sequence[str]) -> None:
        """See the port."""

        def work() -> None:
            doomed = [DeleteObject(self._path(folder, name)) for name in names]
            for failed in self._client.remove_objects(self._bucket, doomed):
                raise MinioException(f"{failed.name} is not deleted: {failed.message}")

        await self._run(work)

    async def check(self) -> None:
        """Raises ``Invalid`` if there is no such bucket, ``Unavailable`` if that cannot be told."""
        if not await self._run(lambda: self._client.bucket_exists(self._bucket)):
            raise Invalid(
                "log_bucket", f"there is no bucket {self._bucket}", remedy="make it, or name another"
            )

    def _path(self, folder: str, name: str) -> str:
        return f"{self._prefix}{folder}/{name}"


def client(
    endpoint: str, access_key: str, secret_key: str, *, region: str = "us-east-1", ca_file: str = ""
) -> Minio:
    """A client for ``endpoint``, an ``https://`` or ``http://`` URL without a path. Raises ``Invalid``.

    A request gives up after 5 s without a connection or 30 s without bytes; ``ca_file``: trust these authorities
    (PEM) instead of the system's.
    """
    scheme, _, host = endpoint.partition("://")
    if scheme not in {"https", "http"} or not host or "/" in host.rstrip("/"):
        raise Invalid(
            "log_endpoint", f"{endpoint!r} is no address of an S3 server", remedy="as https://host:port"
        )
    pool = urllib3.PoolManager(
        timeout=urllib3.Timeout(connect=_CONNECT_S, read=_READ_S),
        maxsize=_THREADS,
        retries=urllib3.Retry(total=2, backoff_factor=0.2, status_forcelist=[500, 502, 503, 504]),
        ca_certs=ca_file or None,
    )
    return Minio(
        host.rstrip("/"),
        access_key=access_key,
        secret_key=secret_key,
        secure=scheme == "https",
        region=region,
        http_client=pool,
    )
