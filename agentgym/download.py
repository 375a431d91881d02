"""Fetching a file over HTTP: it goes on where a connection broke, and nothing wrong ever gets the file's name.

What has come lies in ``NAME.part``; the file appears under its own name only when size and checksum are right. A server
that ignores the request for the rest starts the file again; one that ends early, or answers that it is busy, is asked
again; one that says that there is no such file is not.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import IO, NoReturn

from pydantic import BaseModel, ConfigDict, Field
from tqdm import tqdm

from . import __version__
from .errors import DataError

_CHUNK = 1 << 16
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")


class Source(BaseModel):
    """A file to fetch.

    Attributes:
        url: where it is; http or https.
        sha256: its checksum in hexadecimal digits; None if it is not known.
        size: its size in bytes; None if it is not known.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(pattern=r"^https?://[^/]+/.*[^/]$")
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    size: int | None = Field(default=None, ge=1)

    @property
    def name(self) -> str:
        """The last part of the address, without what has a meaning in paths."""
        return re.sub(r"[^\w.-]", "_", self.url.rsplit("/", 1)[1]).lstrip(".") or "file"


class _AgainError(Exception):
    """A failure that another request may mend."""


def download(
    source: Source, folder: Path, *, attempts: int = 5, timeout: float = 30.0, pause: float = 1.0, limit: int = 1 << 34
) -> Path:
    """Fetches a file into a folder; does nothing if it is there with the right checksum.

    Args:
        source: what to fetch.
        folder: where to put it; it is made if need be.
        attempts: requests in a row that may bring nothing new.
        timeout: seconds without an answer after which a request has failed.
        pause: seconds before the second such request; they double each time.
        limit: most bytes of a file whose size is not known.

    Returns:
        The path of the file.

    Raises:
        DataError: if the file cannot be had, or is not what the source says; or if another process is fetching it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / source.name
    if path.is_file() and source.sha256 is not None and file_sha256(path) == source.sha256:
        return path
    part = folder / f"{source.name}.part"
    with open(part, "ab") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DataError(f"{part}: another process is fetching this file; wait for it") from error
        _fetch(source, stream, attempts, timeout, pause, limit)
        if source.sha256 is not None and (found := file_sha256(part)) != source.sha256:
            part.unlink()
            raise DataError(
                f"{source.url}: wrong checksum {found[:16]}…, expected {source.sha256[:16]}…; what came was deleted. "
                "Try again, or name other sources"
            )
        os.replace(part, path)
    return path


def file_sha256(path: Path) -> str:
    """SHA-256 (hex) of a file."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _fetch(source: Source, stream: IO[bytes], attempts: int, timeout: float, pause: float, limit: int) -> None:
    """Asks for the rest of a file until all of it is there."""
    most, failed = stream.tell(), 0
    with tqdm(total=source.size, initial=most, desc=source.name, unit="B", unit_scale=True, disable=None) as bar:
        while True:
            try:
                _receive(source, stream, timeout, limit, bar)
                return
            except (_AgainError, OSError, http.client.HTTPException) as error:
                stream.flush()
                reached = stream.tell()
                failed = 1 if reached > most else failed + 1
                most = max(most, reached)
                if failed >= attempts:
                    problem = error.reason if isinstance(error, urllib.error.URLError) else error
                    raise DataError(
                        f"{source.url}: {str(problem) or type(problem).__name__}; {reached:,} bytes have come. The "
                        "same command goes on from there"
                    ) from error
            time.sleep(pause * 2 ** min(failed - 1, 5))


def _receive(source: Source, stream: IO[bytes], timeout: float, limit: int, bar: tqdm[NoReturn]) -> None:
    """Makes one request and appends what it brings.

    Raises:
        _AgainError: if the file is not complete and another request may complete it.
        DataError: if it cannot be had at all.
    """
    have = stream.tell()
    if have and have == source.size:
        return
    if source.size is not None and have > source.size:
        have = _restart(stream, bar)
    headers = {"User-Agent": f"agentgym/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        response = urllib.request.urlopen(urllib.request.Request(source.url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        with closing(error):
            _answer_to_error(error, stream, have, bar)
        return
    with response:
        size = source.size
        if response.status == 206:
            match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if match is None or match[1] is None or int(match[1]) != have:
                _restart(stream, bar)
                raise _AgainError("the server sent another part than it was asked for")
            total = None if match[2] == "*" else int(match[2])
        else:
            if have:
                _restart(stream, bar)
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
        if size is not None and total is not None and total != size:
            _restart(stream, bar)
            raise DataError(f"{source.url}: holds {total:,} bytes, expected {size:,}; name other sources")
        size = size or total
        bar.total = size
        while chunk := response.read(_CHUNK):
            stream.write(chunk)
            bar.update(len(chunk))
            if stream.tell() > (size or limit):
                _restart(stream, bar)
                raise DataError(f"{source.url}: more than {size or limit:,} bytes; name other sources")
        stream.flush()
        if size is not None and stream.tell() < size:
            raise _AgainError(f"the connection ended after {stream.tell():,} of {size:,} bytes")


def _answer_to_error(error: urllib.error.HTTPError, stream: IO[bytes], have: int, bar: tqdm[NoReturn]) -> None:
    """Says what an HTTP error means; returns if it means that the file is complete."""
    if error.code == 416 and have:
        match = _CONTENT_RANGE.fullmatch(error.headers.get("Content-Range", ""))
        if match is not None and match[2] == str(have):
            return
        _restart(stream, bar)
        raise _AgainError("the server has no more than had come")
    if error.code in (408, 429) or error.code >= 500:
        raise _AgainError(f"HTTP status {error.code}")
    raise DataError(f"{error.url}: HTTP status {error.code} ({error.reason}); name other sources") from error


def _restart(stream: IO[bytes], bar: tqdm[NoReturn]) -> int:
    stream.truncate(0)
    stream.seek(0)
    bar.reset()
    return 0
