# SPDX-License-Identifier: GPL-2.0-only
"""
Layers between a disk and its file systems: encryption (LUKS), checked blocks (dm-verity,
dm-integrity), subvolumes. cryptsetup, qemu-img, veritysetup and the host's btrfs make the images
and read back our changes.
"""

import base64
import contextlib
import errno
import hashlib
import json
import os
import pty
import shutil
import signal
import subprocess
import termios

import pytest

from support import host, images, integrity, program
from support.images import MEGABYTE
from support.json_output import document
from support.luks import FAST, REENCRYPT, decrypted, encrypt
from support.processes import wait_until_closed
from support.program import bad, good, run

KEY = b"a secret\nof two lines"
MARK = b"what is in the file\n"


# ---- makers ----

@pytest.fixture
def key(work):
    path = f"{work}/key"
    with open(path, "wb") as stream:
        stream.write(KEY)
    return path


@pytest.fixture
def plain(work):
    """A file system with a file."""
    tree = f"{work}/tree"
    os.mkdir(tree)
    with open(f"{tree}/file", "wb") as stream:
        stream.write(MARK)
    return images.make_ext4_of(f"{work}/plain.img", tree, 24, "-b", "4096")


def luks2(plain, path, key, *options):
    """An encrypted volume with the contents of a plain one, by cryptsetup."""
    shutil.copyfile(plain, path)
    encrypt(path, key, *(options if "--pbkdf" in options else (*FAST, *options)))
    assert is_luks(path)
    return path


def is_luks(path):
    return host.run("cryptsetup", "isLuks", path, ok=None).returncode == 0


def luks1(plain, path, *options):
    """An encrypted volume with the contents of a plain one, by QEMU."""
    host.run("qemu-img", "convert", "-O", "luks", "--object", qemu_secret(), "-o",
             ",".join(("key-secret=key", "iter-time=10", *options)), plain, path)
    return path


def qemu_secret():
    return f"secret,id=key,format=base64,data={base64.b64encode(KEY).decode()}"


def in_partition(path, image, *others):
    """A disk whose first partition has this, and others behind it."""
    script, parts, start = "label: gpt\n", {}, 2048
    for part in (image, *others):
        sectors = os.path.getsize(part) // 512
        script += f"start={start}, size={sectors}\n"
        parts[start] = part
        start += -(-sectors // 2048) * 2048
    return images.partitioned(path, script, parts, start // 2048 + 2)


def volumes(image, *options):
    """The volumes that info reports, by their names without the image's."""
    told = document(good(*options, "info", "--json", image))["disk"]
    return {volume["name"][len(told["image"]):]: volume for volume in told["volumes"]}


def on_terminal(*words, answers):
    """Runs the program on a terminal. Answers its questions: by bytes that are typed, or by a
    signal. Returns its exit code and all it printed. At the end the terminal shows again what is
    typed.
    """
    process, terminal = pty.fork()
    if process == 0:
        with contextlib.suppress(OSError):
            os.execv(program.PROGRAM, program.command(*words))
        os._exit(127)
    said, left = b"", list(answers)
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError as error:
            assert error.errno == errno.EIO
            break
        said += piece
        line = said.rpartition(b"\n")[2]
        if left and line.startswith(b"Passphrase") and line.endswith(b": "):
            answer = left.pop(0)
            if isinstance(answer, signal.Signals):
                os.kill(process, answer)
            else:
                os.write(terminal, answer)
            said += b"|"
    assert termios.tcgetattr(terminal)[3] & termios.ECHO
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status), said.decode()


# ---- LUKS ----

@pytest.mark.needs("cryptsetup")
@pytest.mark.parametrize("options", [
    (),
    ("--pbkdf", "argon2id", "--pbkdf-force-iterations", "4", "--pbkdf-memory",
     "65536", "--pbkdf-parallel", "2"),
    ("--pbkdf", "argon2i", "--pbkdf-force-iterations", "5", "--pbkdf-memory",
     "4096", "--pbkdf-parallel", "1"),
    ("--sector-size", "4096"),
    ("--cipher", "aes-cbc-essiv:sha256", "--key-size", "256"),
    ("--hash", "sha512"),
    ("--hash", "whirlpool"),
    ("--hash", "ripemd160"),
    ("--hash", "sha1", "--key-size", "256"),
])
def test_luks2_is_read_and_written(work, plain, key, options):
    image = luks2(plain, f"{work}/image", key, *options)
    assert good("--key-file", key, "cat", f"{image}:/file").raw == MARK
    good("--key-file", key, "cp", key, f"{image}:/new")
    host.run("e2fsck", "-f", "-n", decrypted(image, key))
    assert host.run("debugfs", "-R", "cat /new", image, text=False).stdout == KEY


@pytest.mark.needs("qemu-img")
@pytest.mark.parametrize("options", [
    (),
    ("hash-alg=sha1",),
    ("hash-alg=sha512",),
    ("cipher-alg=serpent-256",),
    ("cipher-alg=twofish-256",),
    ("cipher-alg=aes-128", "cipher-mode=cbc", "ivgen-alg=plain64"),
    ("cipher-alg=aes-256", "cipher-mode=cbc", "ivgen-alg=essiv", "ivgen-hash-alg=sha256"),
])
def test_luks1_is_read_and_written(work, plain, key, options):
    image = luks1(plain, f"{work}/image", *options)
    assert good("--key-file", key, "cat", f"{image}:/file").raw == MARK
    good("--key-file", key, "cp", key, f"{image}:/new")
    host.run("qemu-img", "convert", "-O", "raw", "--object", qemu_secret(), "--image-opts",
             f"driver=luks,key-secret=key,file.filename={image}", f"{work}/back")
    host.run("e2fsck", "-f", "-n", f"{work}/back")
    assert host.run("debugfs", "-R", "cat /new", f"{work}/back", text=False).stdout == KEY


@pytest.mark.needs("cryptsetup")
def test_reading_changes_nothing(work, plain, key):
    image = luks2(plain, f"{work}/image", key)
    before = hashlib.sha256(open(image, "rb").read()).digest()
    good("--key-file", key, "cat", f"{image}:/file")
    good("--key-file", key, "info", image)
    bad("--key-file", key, "--ro", "cp", key, f"{image}:/new", mentions=["read-only"])
    assert hashlib.sha256(open(image, "rb").read()).digest() == before


@pytest.mark.needs("cryptsetup")
def test_every_command_works_on_an_encrypted_partition(work, plain, key):
    disk = in_partition(f"{work}/disk", luks2(plain, f"{work}/image", key))
    key_file = ("--key-file", key)
    assert good(*key_file, "cat", f"{disk}@1:/file").raw == MARK
    # The only one needs no name; a note says so.
    only = run(*key_file, "cat", f"{disk}:/file")
    assert only.raw == MARK and only.err.startswith("outboard: note: ") and f"{disk}@1" in only.err
    good(*key_file, "cp", "-a", f"{disk}@1:/", f"{work}/out")
    host.run("diff", "-r", "--exclude=lost+found", f"{work}/tree", f"{work}/out")
    # A user cannot give the copy away.
    compared = ("diff", *(() if host.IS_ROOT else ("--ignore", "owners")), "-x", "lost+found")
    good(*key_file, *compared, f"{disk}@1:/", f"{work}/out")
    good(*key_file, "tar-out", "-f", f"{work}/tar", f"{disk}@1:/")
    good(*key_file, "mkdir", f"{disk}@1:/new")
    good(*key_file, "tar-in", "-f", f"{work}/tar", f"{disk}@1:/new")
    found = good(*key_file, "find", f"{disk}@1:/", "-name", "file").out.split()
    assert sorted(found) == [f"{disk}@1:/file", f"{disk}@1:/new/file"]
    assert document(good(*key_file, "df", "--json", disk))["filesystems"]
    with open(f"{work}/script", "w", encoding="utf-8") as stream:
        stream.write(f"cat {disk}@1:/file\nrm {disk}@1:/file\nls {disk}@1:/\n")
    assert good(*key_file, "run-script", f"{work}/script").raw.startswith(MARK)
    bad(*key_file, "cat", f"{disk}@1:/file", mentions=["No such file"])


@pytest.mark.needs("cryptsetup", "qemu-img")
def test_info_of_encrypted_volumes(work, plain, key):
    second = luks2(plain, f"{work}/second", key)
    uuid = host.run("cryptsetup", "luksUUID", second).stdout.strip()
    disk = in_partition(f"{work}/disk", luks1(plain, f"{work}/first"), second, plain)
    locked = volumes(disk)
    assert [(volume["details"], volume["locked"], volume["filesystem"])
            for volume in locked.values()] == [
                ("LUKS1 aes-xts-plain64", True, None), ("LUKS2 aes-xts-plain64", True, None)]
    assert document(good("info", "--json",
                         disk))["disk"]["partitions"][1]["filesystem"]["uuid"] == uuid
    opened = volumes(disk, "--key-file", key)
    assert list(opened) == ["@1", "@2"] and not opened["@2"]["locked"]
    assert opened["@2"]["kind"] == "encrypted" and opened["@2"]["on"] == [f"{disk}@2"]
    assert os.path.getsize(plain) <= opened["@2"]["size"] < os.path.getsize(second)
    assert opened["@2"]["filesystem"]["type"] == "ext4" and opened["@2"]["filesystem"]["used"]
    assert list(volumes(f"{disk}@2", "--key-file", key)) == ["@2"]
    assert "locked" in good("info", disk).out
    # A file system that needs no key does not hide the others.
    bad("ls", f"{disk}:/", mentions=[f"{disk}@1:/ (crypto_LUKS)", f"{disk}@3:/ (ext4)"])
    assert good("cat", f"{disk}@3:/file").raw == MARK


@pytest.mark.needs("cryptsetup")
def test_wrong_keys(work, plain, key):
    image = luks2(plain, f"{work}/image", key)
    with open(f"{work}/wrong", "wb") as stream:
        stream.write(KEY[:-1])
    bad("--key-file", f"{work}/wrong", "ls", f"{image}:/",
        mentions=[image, "--key-file", "none of its key slots"])
    bad("--key-file", f"{work}/missing", "ls", f"{image}:/", mentions=["missing", "No such file"])
    bad("ls", f"{image}:/", mentions=["encrypted", "--key-file"], prefix=("setsid",))
    # Where nothing is encrypted no key is needed, and none is missed.
    good("--key-file", f"{work}/wrong", "ls", f"{plain}:/")
    # Another key slot, with more trust.
    host.run("cryptsetup", "-q", "luksAddKey", *FAST, "--key-file", key, image, f"{work}/wrong")
    good("--key-file", f"{work}/wrong", "ls", f"{image}:/")
    with open(key, "rb") as stream:
        assert run("--key-file", "-", "cat", f"{image}:/file",
                   prefix=("sh", "-c", f'exec "$@" < {stream.name}', "sh")).raw == MARK


@pytest.mark.needs("cryptsetup")
def test_commands_that_run_programs_hand_the_key_on(work, plain, key):
    """Several processes in turn run the kernel, and each needs the key. Standard input can be read
    only once.
    """
    image = luks2(plain, f"{work}/image", key)
    prefix = ("sh", "-c", f'exec "$@" < {key}', "sh")
    good("--key-file", "-", "cp", "/proc/version", f"{image}:/text", prefix=prefix)
    good("--key-file", "-", "edit", f"{image}:/text", prefix=prefix, EDITOR="sed -i 1s/^/edited-/",
         VISUAL="")
    assert good("--key-file", key, "cat", f"{image}:/text").out.startswith("edited-Linux")
    with open(f"{work}/script", "w", encoding="utf-8") as stream:
        stream.write(f"cp /proc/version {image}:/new\nfsck -n {plain}\ncat {image}:/new\n")
    assert "Linux version" in good("--key-file", "-", "run-script", f"{work}/script",
                                   prefix=prefix).out


@pytest.mark.needs("cryptsetup")
def test_passphrases_are_asked_for(work, plain):
    passphrase = f"{work}/passphrase"
    with open(passphrase, "wb") as stream:
        stream.write(b"open sesame")
    image = luks2(plain, f"{work}/image", passphrase)
    code, said = on_terminal("cat", f"{image}:/file", answers=[b"no\r", b"open  \x7f\x7f sesame\r"])
    assert code == 0 and MARK.decode().strip() in said, said
    assert f"Passphrase of {image}: " in said
    assert "no key slot opens" in said
    assert "sesame" not in said
    code, said = on_terminal("cat", f"{image}:/file", answers=[b"no\r"] * 3)
    assert code == 1 and said.count("Passphrase") == 3
    code, said = on_terminal("cat", f"{image}:/file", answers=[b"n\x03"])
    assert code == 130, said
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        code, said = on_terminal("cat", f"{image}:/file", answers=[number])
        assert code == 128 + number and "no passphrase was typed" in said, said
    # One that opens several volumes is asked for once, and also where a script first reads, then
    # writes.
    shutil.copyfile(image, f"{work}/other")
    with open(f"{work}/script", "w", encoding="utf-8") as stream:
        stream.write(f"cat {image}:/file\ncp {passphrase} {image}:/new\ncat {work}/other:/file\n")
    code, said = on_terminal("run-script", f"{work}/script", answers=[b"open sesame\n"])
    assert code == 0 and said.count("Passphrase") == 1, said


@pytest.mark.needs("cryptsetup")
def test_a_damaged_header_has_a_copy(work, plain, key):
    image = luks2(plain, f"{work}/image", key)
    with open(image, "r+b") as stream:
        stream.seek(4096)
        stream.write(bytes(100))
    assert good("--key-file", key, "cat", f"{image}:/file").raw == MARK
    with open(image, "r+b") as stream:
        stream.write(bytes(4096))
    assert good("--key-file", key, "cat", f"{image}:/file").raw == MARK
    with open(image, "r+b") as stream:
        stream.seek(0x4000)
        stream.write(bytes(4096))
    bad("--key-file", key, "cat", f"{image}:/file", mentions=["no file system"])


def change_json(image, change):
    """Changes what the first header of an image says, and destroys the other one."""
    with open(image, "r+b") as stream:
        header = bytearray(stream.read(0x4000))
        text = json.loads(header[4096:].split(b"\0")[0])
        change(text)
        new = json.dumps(text).encode()
        header[4096:] = new + bytes(0x4000 - 4096 - len(new))
        header[448:512] = bytes(64)
        header[448:480] = hashlib.sha256(header).digest()
        stream.seek(0)
        stream.write(header)
        stream.seek(0x4000)
        stream.write(bytes(4096))


@pytest.mark.needs("cryptsetup")
@pytest.mark.parametrize("says,change", [
    ("2048 MiB", lambda text: text["keyslots"]["0"].update(
        kdf={"type": "argon2id", "time": 4, "memory": 4 << 20, "cpus": 4, "salt": "AAAA" * 8})),
    ("256 GiB", lambda text: text["keyslots"]["0"].update(
        kdf={"type": "argon2id", "time": 1 << 31, "memory": 1 << 20, "cpus": 4,
             "salt": "AAAA" * 8})),
    ("iterations", lambda text: text["keyslots"]["0"]["kdf"].update(iterations=4000000000)),
    ("Argon2", lambda text: text["keyslots"]["0"].update(
        kdf={"type": "argon2id", "time": 1, "memory": 0, "cpus": 0, "salt": "AAAA" * 8})),
    ("outside", lambda text: text["keyslots"]["0"]["area"].update(offset=str(1 << 62))),
    ("impossible", lambda text: text["keyslots"]["0"]["af"].update(stripes=1 << 40)),
    ("no cipher", lambda text: text["segments"]["0"].update(encryption="aes 0 /dev/vda")),
    ("xyz", lambda text: text["keyslots"]["0"]["area"].update(encryption="xyz-xts-plain64")),
    ("md5", lambda text: text["keyslots"]["0"]["af"].update(hash="md5")),
    ("sectors of 99 bytes", lambda text: text["segments"]["0"].update(sector_size=99)),
    ("JSON", lambda text: text.pop("digests")),
    ("reencrypt",
     lambda text: text["config"].update(requirements={"mandatory": ["online-reencrypt-v2"]})),
])
def test_headers_of_strangers(work, plain, key, says, change):
    image = luks2(plain, f"{work}/image", key)
    change_json(image, change)
    bad("--key-file", key, "ls", f"{image}:/", mentions=[says], timeout=60)
    good("--key-file", key, "info", image, timeout=60)


@pytest.mark.needs("cryptsetup")
def test_what_is_being_encrypted_anew_is_refused(work, plain, key):
    image = f"{work}/image"
    shutil.copyfile(plain, image)
    os.truncate(image, os.path.getsize(plain) + 32 * MEGABYTE)
    host.run(*REENCRYPT, "--encrypt", "--init-only",
             "--type", "luks2", "--reduce-device-size", "32M",
             "--key-file", key, *FAST, image)
    bad("--key-file", key, "ls", f"{image}:/", mentions=["cryptsetup reencrypt"])


@pytest.mark.needs_root
@pytest.mark.skipif(not host.has_fuse(), reason="no FUSE here")
@pytest.mark.needs("cryptsetup")
@pytest.mark.parametrize("given", ["file", "standard input", "terminal"])
def test_an_encrypted_volume_is_mounted(work, plain, key, given):
    if given == "terminal":
        with open(key, "wb") as stream:
            stream.write(b"open sesame")
    image = luks2(plain, f"{work}/image", key)
    directory = f"{work}/mount"
    os.mkdir(directory)
    if given == "file":
        good("--key-file", key, "mount", image, directory)
    elif given == "terminal":
        code, said = on_terminal("mount", image, directory, answers=[b"open sesame\r"])
        assert code == 0, said
    else:
        good("--key-file", "-", "mount", image, directory,
             prefix=("sh", "-c", f'exec "$@" < {key}', "sh"))
    with open(f"{directory}/new", "wb") as stream:
        stream.write(KEY)
    good("umount", directory)
    assert good("--key-file", key, "cat", f"{image}:/new").raw == KEY
    host.run("e2fsck", "-f", "-n", decrypted(image, key))


@pytest.mark.needs("cryptsetup")
def test_tools_are_not_let_loose_on_what_is_encrypted(work, plain, key):
    image = luks2(plain, f"{work}/image", key)
    before = hashlib.sha256(open(image, "rb").read()).digest()
    for words in (("mkfs", "--force", "ext4"), ("fsck", "-y"), ("resize", "--max")):
        code = 8 if words[0] == "fsck" else 1
        bad("--key-file", key, *words, f"{image}@name", code=code, mentions=["name"])
        if words[0] != "mkfs":
            bad(*words, image, code=code, mentions=["key"])
    bad("mkfs", "ext4", image, mentions=["exists"])
    assert hashlib.sha256(open(image, "rb").read()).digest() == before


@pytest.mark.skipif(not host.has_fuse(), reason="no FUSE here")
@pytest.mark.needs("cryptsetup")
def test_tools_work_on_an_encrypted_partition(work, plain, key):
    image = in_partition(f"{work}/disk", luks2(plain, f"{work}/luks", key))
    given = ("--key-file", key)
    assert run(*given, "fsck", f"{image}@1").code == 0
    good(*given, "resize", f"{image}@1", "16M")
    good(*given, "resize", f"{image}@1", "--max")
    assert run(*given, "fsck", "-y", f"{image}@1").code == 0
    assert good(*given, "cat", f"{image}@1:/file").raw == MARK
    good(*given, "mkfs", "--force", "ext4", f"{image}@1")
    good(*given, "cp", key, f"{image}@1:/new")
    sectors = os.path.getsize(f"{work}/luks") // 512
    host.run("dd", f"if={image}", f"of={work}/part", "bs=512", "skip=2048",
             f"count={sectors}", "status=none")
    host.run("e2fsck", "-f", "-n", decrypted(f"{work}/part", key))


@pytest.mark.needs("qemu-img")
def test_partitions_in_an_encrypted_disk(work, plain, key):
    inner = in_partition(f"{work}/inner", plain, plain)
    disk = in_partition(f"{work}/disk", luks1(inner, f"{work}/image"))
    for name in (f"{disk}@1@2", f"{work}/image@2"):
        assert good("--key-file", key, "cat", f"{name}:/file").raw == MARK
    told = volumes(disk, "--key-file", key)
    assert list(told) == ["@1", "@1@1", "@1@2"] and told["@1@2"]["kind"] == "partition"
    bad("--key-file", key, "ls", f"{disk}@1:/", mentions=[f"{disk}@1@1:/ (ext4)"])
    good("--key-file", key, "cp", key, f"{disk}@1@1:/new")
    bad("--key-file", key, "cat", f"{disk}@1@2:/new", mentions=["No such file"])
    bad("--key-file", key, "cat", f"{disk}@1@3:/file", mentions=[f"{disk}@1@1"])


# ---- dm-verity ----

def verity(*words):
    """The root hash that veritysetup prints."""
    lines = host.run("veritysetup", "format", *words).stdout.splitlines()
    return next(line.split()[-1] for line in lines if line.startswith("Root hash"))


@pytest.mark.needs("veritysetup")
@pytest.mark.parametrize("options", [
    (), ("--hash", "sha512"), ("--salt", "-"), ("--hash-block-size", "1024"), ("--format", "0")])
def test_verity_with_a_partition_of_hashes(work, plain, options):
    root = verity(*options, plain, f"{work}/hashes")
    os.truncate(f"{work}/hashes", -(-os.path.getsize(f"{work}/hashes") // 512) * 512)
    disk = in_partition(f"{work}/disk", plain, f"{work}/hashes")
    assert good("--verity", root, "cat", f"{disk}@1:/file").raw == MARK
    assert good("--verity", root, "cat", f"{disk}:/file", notes=["the only one"]).raw == MARK
    told = volumes(disk, "--verity", root)["@1"]
    assert told["kind"] == "verified" and told["on"] == [f"{disk}@1", f"{disk}@2"]
    assert told["filesystem"]["state"] == "clean"
    bad("--verity", root, "cp", f"{disk}@1:/file", f"{disk}@1:/new", mentions=["verified"])
    wrong = root[:-1] + ("0" if root[-1] != "0" else "1")
    bad("--verity", wrong, "cat", f"{disk}@1:/file", mentions=["root hash", f"{disk}@2"])
    bad("--verity", root, "cat", f"{plain}:/file", mentions=["root hash"])
    # Without the root hash nothing is checked; what is read by it can go anywhere.
    assert good("cat", f"{disk}@1:/file").raw == MARK
    other = images.make(f"{work}/other.img", "ext4")
    good("--verity", root, "cp", f"{disk}@1:/file", f"{other}:/")


@pytest.mark.needs("veritysetup")
def test_verity_finds_what_was_changed(work, plain):
    root = verity(plain, f"{work}/hashes")
    disk = in_partition(f"{work}/disk", plain, f"{work}/hashes")
    with open(disk, "r+b") as stream:
        place = stream.read().index(MARK)
        stream.seek(place)
        stream.write(b"W")
    assert good("cat", f"{disk}@1:/file").raw == b"W" + MARK[1:]
    failed = bad("--verity", root, "cat", f"{disk}@1:/file", mentions=["Input/output error"])
    assert failed.raw == b""
    bad("--verity", root, "cp", f"{disk}@1:/file", f"{work}/out", mentions=["Input/output error"])
    assert not os.path.exists(f"{work}/out")


@pytest.mark.needs("veritysetup")
def test_verity_with_hashes_behind_the_file_system(work, plain):
    size = os.path.getsize(plain)
    near = verity("--hash-offset", str(size), "--data-blocks", str(size // 4096), plain, plain)
    assert good("--verity", near, "cat", f"{plain}:/file").raw == MARK
    os.truncate(plain, size)
    far = verity("--hash-offset", str(size + 40960), "--data-blocks", str(size // 4096),
                 plain, plain)
    bad("--verity", far, "cat", f"{plain}:/file", mentions=["root hash"])
    assert (good("--verity", far, "--verity-offset", str(size + 40960), "cat", f"{plain}:/file").raw
            == MARK)
    bad("--verity", "00", "cat", f"{plain}:/file", code=2, mentions=["hexadecimal"])


# ---- dm-integrity ----

@pytest.mark.parametrize("algorithm,tag_size,block_size", [
    ("crc32c", 4, 4096), ("crc32c", 4, 512), ("sha256", 32, 4096), ("xxhash64", 8, 1024)])
def test_integrity_devices(work, plain, key, algorithm, tag_size, block_size):
    library = os.path.join(program.OUT, "lib", "liboutboard.so")
    image = integrity.make(library, f"{work}/image", plain, algorithm, tag_size, block_size)
    given = () if algorithm == "crc32c" else ("--integrity", algorithm)
    before = hashlib.sha256(open(image, "rb").read()).digest()
    assert good(*given, "cat", f"{image}:/file").raw == MARK
    told = volumes(image, *given)[""]
    assert (told["kind"], told["details"], told["filesystem"]["type"]) == (
        "checked", f"dm-integrity {algorithm}", "ext4")
    assert hashlib.sha256(open(image, "rb").read()).digest() == before
    good(*given, "cp", key, f"{image}:/new")
    assert good(*given, "cat", f"{image}:/new").raw == KEY
    wrong = "crc32" if tag_size == 4 else "sha1"
    bad("--integrity", wrong, "cat", f"{image}:/file", mentions=[wrong, "--integrity"])
    with open(image, "r+b") as stream:
        # The journal has it, too; what counts is the last.
        place = stream.read().rindex(MARK)
        stream.seek(place)
        stream.write(b"W")
    bad(*given, "cat", f"{image}:/file", mentions=["Input/output error"])
    assert good(*given, "cat", f"{image}:/new").raw == KEY


def test_an_integrity_device_that_was_not_left_well(work, plain, key):
    library = os.path.join(program.OUT, "lib", "liboutboard.so")
    image = integrity.make(library, f"{work}/image", plain)
    shell = subprocess.Popen(program.command("shell", image), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
    # Once the last line is answered, what the one before has written is durable, in the journal.
    shell.stdin.write(f"cp host:{key} /new\nsync /\nls /new\n".encode())
    shell.stdin.flush()
    assert shell.stdout.readline().strip().endswith(b":/new")
    shell.kill()
    shell.wait()
    wait_until_closed(image)
    shell.stdin.close()
    shell.stdout.close()
    before = hashlib.sha256(open(image, "rb").read()).digest()
    left = run("cat", f"{image}:/file")
    assert left.code == 0 and left.raw == MARK and "tags are not checked" in left.err, left
    assert hashlib.sha256(open(image, "rb").read()).digest() == before
    # Writing replays the journal.
    good("touch", f"{image}:/other")
    assert good("cat", f"{image}:/new").raw == KEY


# ---- subvolumes of btrfs ----

@pytest.fixture
def subvolumes(work):
    """Subvolumes as Ubuntu and Timeshift make them, by the host's kernel."""
    host.require_mount("btrfs")
    image = images.make(f"{work}/btrfs.img", "btrfs")
    with host.loop_mount(image, "btrfs") as top:
        for name in ("@", "@home", "@/var", "with space", "plain"):
            host.run("btrfs", "subvolume", "create", f"{top}/{name}")
            with open(f"{top}/{name}/is", "w", encoding="utf-8") as stream:
                stream.write(name)
        os.makedirs(f"{top}/timeshift/2026-11-21")
        host.run("btrfs", "subvolume", "snapshot", "-r", f"{top}/@",
                 f"{top}/timeshift/2026-11-21/@")
        with open(f"{top}/@/is", "w", encoding="utf-8") as stream:
            stream.write("later")
        host.run("btrfs", "subvolume", "create", f"{top}/gone")
        host.run("btrfs", "subvolume", "delete", "-c", f"{top}/gone")
    return image


NAMES = {"@": "later", "@home": "@home", "@/var": "@/var", "with space": "with space",
         "plain": "plain", "timeshift/2026-11-21/@": "@"}


@pytest.mark.needs_root
@pytest.mark.needs("btrfs")
def test_subvolumes_are_found_and_named(work, subvolumes):
    for image, prefix in ((subvolumes, ""), (in_partition(f"{work}/disk", subvolumes), "@1")):
        told = volumes(image)
        assert list(told) == [f"{prefix}@{name}" for name in NAMES]
        for name, text in NAMES.items():
            assert good("cat", f"{image}{prefix}@{name}:/is").out == text
            assert good("cat", f"{image}@{name}:/is").out == text
        kinds = {name: (volume["kind"], volume["details"]) for name, volume in told.items()}
        assert kinds[f"{prefix}@@"] == ("subvolume", "")
        assert kinds[f"{prefix}@timeshift/2026-11-21/@"] == ("snapshot", "read-only")
        bad("ls", f"{image}{prefix}@nothing:/", mentions=["nothing", f"{image}{prefix}@@home"])
        bad("ls", f"{image}{prefix}@:/", mentions=[f"{image}{prefix}@"])


@pytest.mark.needs_root
@pytest.mark.needs("btrfs")
def test_subvolumes_whose_paths_mean_something_else(work):
    """A number is a partition, and `:/` ends the image."""
    host.require_mount("btrfs")
    image = images.make(f"{work}/btrfs.img", "btrfs")
    with host.loop_mount(image, "btrfs") as top:
        for name in ("1", "x:", "x:/y", "plain", "plain/2"):
            host.run("btrfs", "subvolume", "create", f"{top}/{name}")
            with open(f"{top}/{name}/is", "w", encoding="utf-8") as stream:
                stream.write(name)
    for disk, prefix, first in ((image, "", "@/1"), (in_partition(f"{work}/disk", image), "@1",
                                                     "@1@1")):
        told = list(volumes(disk))
        assert told[0] == first and f"{prefix}@plain/2" in told
        read = [good("cat", f"{disk}{name}:/is").out for name in told]
        assert sorted(read) == ["1", "plain", "plain/2", "x:", "x:/y"], told


@pytest.mark.needs_root
@pytest.mark.needs("btrfs")
def test_subvolumes_are_written(subvolumes, key):
    good("cp", key, f"{subvolumes}@@home:/new")
    bad("cp", key, f"{subvolumes}@timeshift/2026-11-21/@:/new", mentions=["Read-only"])
    # One kernel has several of one file system, and the whole.
    with open(f"{key}.script", "w", encoding="utf-8") as stream:
        stream.write(f"cp {subvolumes}@@home:/new {subvolumes}@@:/\ncat {subvolumes}:/@home/new\n"
                     f"mv {subvolumes}@@:/new {subvolumes}@plain:/\n")
    assert good("run-script", f"{key}.script").raw == KEY
    host.run("btrfs", "check", subvolumes)
    with host.loop_mount(subvolumes, "btrfs", "ro") as top:
        for name in ("@home", "plain"):
            with open(f"{top}/{name}/new", "rb") as stream:
                assert stream.read() == KEY
        assert not os.path.exists(f"{top}/@/new")
    # The top has a name, too, whatever the default is.
    host.run("btrfs", "check", subvolumes)
    with host.loop_mount(subvolumes, "btrfs") as top:
        host.run("btrfs", "subvolume", "set-default", f"{top}/plain")
    assert good("cat", f"{subvolumes}:/is").out == "plain"
    assert good("cat", f"{subvolumes}@/:/@home/is").out == "@home"


@pytest.mark.needs_root
@pytest.mark.needs("btrfs", "cryptsetup")
def test_a_subvolume_in_an_encrypted_partition(work, subvolumes, key):
    disk = in_partition(f"{work}/disk", luks2(subvolumes, f"{work}/image", key))
    for name in (f"{disk}@1@@home", f"{disk}@@home"):
        assert good("--key-file", key, "cat", f"{name}:/is").out == "@home"
    assert list(volumes(disk, "--key-file", key))[:3] == ["@1", "@1@@", "@1@@home"]
    bad("cat", f"{disk}@@home:/is", mentions=["encrypted"], prefix=("setsid",))
    # Without a key not all file systems are found.
    host.run("dd", f"if={subvolumes}", f"of={work}/boot", "status=none")
    host.run("btrfstune", "-f", "-u", f"{work}/boot")
    with host.loop_mount(f"{work}/boot", "btrfs") as top:
        host.run("btrfs", "subvolume", "delete", "-c", f"{top}/@home")
        host.run("btrfs", "subvolume", "create", f"{top}/more")
    both = in_partition(f"{work}/both", f"{work}/boot", f"{work}/image")
    good("ls", f"{both}@more:/")
    bad("ls", f"{both}@@home:/", mentions=[f"{both}@2 is encrypted"], prefix=("setsid",))
    assert good("--key-file", key, "cat", f"{both}@@home:/is").out == "@home"


@pytest.mark.needs_root
@pytest.mark.needs("btrfs", "cryptsetup")
def test_df_of_layers(work, plain, subvolumes, key):
    disk = in_partition(f"{work}/disk", luks2(plain, f"{work}/image", key), subvolumes)
    rows = document(good("--key-file", key, "df", "--json", disk))["filesystems"]
    assert {(row["type"], row["volume"]) for row in rows} == {("ext4", f"{disk}@1"),
                                                              ("btrfs", f"{disk}@2")}


# ---- names ----

def test_files_with_an_at_in_their_names(work, plain):
    for name in ("plain.img@2", "plain.img@@home", "user@host"):
        shutil.copyfile(plain, f"{work}/{name}")
        assert good("cat", f"{work}/{name}:/file").raw == MARK
    bad("cat", f"{plain}@3:/file", mentions=["no partition 3"])
    bad("cat", f"{plain}@data:/file", mentions=["data", plain])
    good("mkfs", "ext4", f"{work}/new@image", "--size", "16M")
    assert os.path.exists(f"{work}/new@image")
