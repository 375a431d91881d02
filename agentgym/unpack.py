"""Unpacking an archive that nobody has looked at.

Invariant: nothing is written outside the target folder, no link is made, no file is replaced, and no more is written
than the limits allow. An archive with a single entry that tries otherwise is refused before anything is written.
"""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from tqdm import tqdm

from .errors import DataError

MAX_FILE = 1 << 26
MAX_TOTAL = 1 << 33
MAX_ENTRIES = 1_000_000


def unpack(
    archive: Path,
    folder: Path,
    *,
    wanted: Callable[[PurePosixPath], bool] = lambda path: True,
    max_file: int = MAX_FILE,
    max_total: int = MAX_TOTAL,
) -> int:
    """Unpacks the wanted files of a zip archive.

    Args:
        archive: the zip file.
        folder: target; it is made if need be.
        wanted: tells from its path in the archive whether to unpack a file.
        max_file: most bytes of one unpacked file.
        max_total: most bytes of all unpacked files.

    Returns:
        The number of files written.

    Raises:
        DataError: if the archive is damaged, or holds an entry that leads out of the folder, a link or another special
            file, an encrypted file, a file twice, or more than the limits allow.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = _checked(archive, opened, wanted, max_file, max_total)
            for path, entry in tqdm(entries, desc=f"unpack {archive.name}", unit="file", disable=None):
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with opened.open(entry) as source, open(target, "xb") as copy:
                    shutil.copyfileobj(source, copy)
    # zipfile raises NotImplementedError for a compression method or version that it does not know.
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise DataError(f"{archive}: damaged archive ({error}); delete it and fetch it again") from error
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise DataError(f"{archive}: would replace {error.filename}; unpack into an empty folder") from error
    return len(entries)


def _checked(
    archive: Path,
    opened: zipfile.ZipFile,
    wanted: Callable[[PurePosixPath], bool],
    max_file: int,
    max_total: int,
) -> list[tuple[PurePosixPath, zipfile.ZipInfo]]:
    """The wanted files, after a look at every entry."""
    listed = opened.infolist()
    if len(listed) > MAX_ENTRIES:
        raise DataError(f"{archive}: has {len(listed):,} entries, more than {MAX_ENTRIES:,}; do not use this archive")
    entries: dict[PurePosixPath, zipfile.ZipInfo] = {}
    total = 0
    for entry in listed:
        path = PurePosixPath(entry.orig_filename)
        problem = _problem(entry, path)
        if not problem and not entry.is_dir() and wanted(path):
            total += entry.file_size
            if path in entries:
                problem = "is there twice"
            elif entry.file_size > max_file or total > max_total:
                problem = f"makes it too large (limits: {max_file:,} bytes a file, {max_total:,} in all)"
            entries[path] = entry
        if problem:
            raise DataError(
                f"{archive}: {entry.orig_filename!r} {problem}; nothing was unpacked. Do not use this archive"
            )
    return list(entries.items())


def _problem(entry: zipfile.ZipInfo, path: PurePosixPath) -> str:
    """Why an entry must not be unpacked; empty if it may."""
    name = entry.orig_filename
    if path.is_absolute() or ".." in path.parts or not path.parts or any(mark in name for mark in "\\:\0"):
        return "leads out of the folder"
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a link or another special file"
    return "is encrypted" if entry.flag_bits & 1 else ""
