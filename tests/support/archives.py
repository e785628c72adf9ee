# SPDX-License-Identifier: GPL-2.0-only
"""Archives of tar: made member by member, fed to tar-in, taken from tar-out."""

import io
import subprocess
import tarfile

from support import host, images, program
from support.checkers import FSCK
from support.program import run

SIZES = {"ext4": 300, "xfs": 400, "btrfs": 400}


def make(work, kind="ext4", name="disk.img", megabytes=0):
    """An empty file system with room for many attributes. Returns its path."""
    options = ("-b", "4096") if kind == "ext4" else ()
    return images.make(f"{work}/{name}", kind, megabytes or SIZES[kind], *options)


def check(image, kind="ext4"):
    host.run(*FSCK[kind], image)


def tar_in(archive, place, *options, code=0):
    """Feeds an archive (bytes, or the path of one) to standard input."""
    content = archive if isinstance(archive, bytes) else open(archive, "rb").read()
    done = subprocess.run(program.command("tar-in", *options, place), input=content,
                          capture_output=True, timeout=240, check=False)
    result = program.Result(done)
    assert result.code == code, str(result)
    for text in program.FORBIDDEN:
        assert text not in result.err, str(result)
    return result


def tar_out(place, path, *options):
    with open(path, "wb") as stream:
        done = subprocess.run(program.command("tar-out", *options, place),
                              stdout=stream, stderr=subprocess.PIPE, timeout=240, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return path


def member(name, content=None, kind=tarfile.REGTYPE, link="", **fields):
    """The header of a member, and its data."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mtime = kind, link, 10**9
    info.mode = 0o644 if kind != tarfile.DIRTYPE else 0o755
    info.size = len(content or b"")
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def archive_of(*members, form=tarfile.PAX_FORMAT, **options):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form, **options) as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content) if content is not None else None)
    return stream.getvalue()


def cat(image, path):
    """Returns the contents of a file of the image. None: the file cannot be read."""
    result = run("cat", f"{image}:{path}")
    return result.raw if result.code == 0 else None


def blocks_of(*described, kind=tarfile.USTAR_FORMAT):
    """Members without the end of an archive, and without PAX records."""
    parts = []
    for info, content in described:
        content = content or b""
        parts.append(info.tobuf(kind) + content + bytes(-len(content) % 512))
    return b"".join(parts)


def set_field(content, offset, start, value):
    """Changes a field of the header at `offset`, and makes its checksum right."""
    block = bytearray(content[offset:offset + 512])
    block[start:start + len(value)] = value
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return content[:offset] + bytes(block) + content[offset + 512:]


def record(key, value):
    """A record of a PAX header. Its length counts its own digits, too."""
    for digits in range(1, 9):
        text = f" {key}={value}\n".encode()
        if len(str(len(text) + digits)) == digits:
            return b"%d" % (len(text) + digits) + text
    raise ValueError


def pax_header(*records):
    """A header with records for the member that follows."""
    records = b"".join(records)
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, len(records)
    return info.tobuf(tarfile.USTAR_FORMAT) + records + b"\0" * (-len(records) % 512)


def hard_link(name, target, data, form=tarfile.USTAR_FORMAT, follows=True):
    """A hard link whose header has a size; whether so many bytes follow."""
    info, _ = member(name, kind=tarfile.LNKTYPE, link=target)
    header = set_field(info.tobuf(form), 0, 124, b"%011o\0" % len(data))
    return header + (data + bytes(-len(data) % 512) if follows else b"")
