# SPDX-License-Identifier: GPL-2.0-only
"""outboard/volume.h: C programs on volumes that other people's tools have made, and the symbols
that the library exports.
"""

import contextlib
import json
import os
import re
import struct
import subprocess

import pytest

from library import test_capi as capi
from support import bad_servers, host, images, luks, servers
from support.checkers import DAMAGE

# Where the header of a qcow2 has the offsets of its tables of clusters and of counts.
QCOW2_TABLES = (40, 48)
EXAMPLE = os.path.join(capi.REPOSITORY, "docs", "examples", "read_volume.c")
HEADER = os.path.join(capi.OUT, "include", "outboard", "volume.h")
LIBRARY = os.path.join(capi.LIBRARIES, "liboutboard-volume.so")


def flags(static=False):
    if not static:
        return capi.run("pkg-config", "--cflags", "--libs", "outboard-volume",
                        PKG_CONFIG_PATH=f"{capi.LIBRARIES}/pkgconfig").split()
    archives = [f"{capi.LIBRARIES}/liboutboard{name}.a" for name in ("-volume", "", "-components")]
    whole = ["-Wl,--whole-archive", archives.pop(), "-Wl,--no-whole-archive"]
    return ["-static", "-I", os.path.join(capi.OUT, "include"), *archives, *whole, "-lm"]


def build(work, source, static=False):
    path = os.path.join(work, os.path.basename(source).removesuffix(".c"))
    source = os.path.join(capi.HERE, source)
    capi.run("gcc", *capi.FLAGS, "-I", capi.HERE, "-o", path, source, *flags(static))
    return path


def run(program, *arguments, **options):
    return capi.run(program, *arguments, LD_LIBRARY_PATH=capi.LIBRARIES, **options)


@pytest.fixture
def key(work):
    path = os.path.join(work, "key")
    with open(path, "wb") as stream:
        stream.write(b"a key\n")
    return path


def tree(work):
    directory = os.path.join(work, "files")
    os.mkdir(directory)
    with open(f"{directory}/hello", "w", encoding="ascii") as stream:
        stream.write("hello\n")
    return directory


def encrypted_qcow2(work, key):
    """An ext4 file system in LUKS2, in the second partition of a qcow2. Returns its name."""
    volume = images.make_ext4_of(f"{work}/ext4", tree(work))
    luks.encrypt(volume, key)
    size = os.path.getsize(volume) >> 9
    script = f"label: gpt\nstart=2048, size=2048\nstart=4096, size={size}\n"
    raw = images.partitioned(f"{work}/raw", script, {4096: volume}, (size >> 11) + 4)
    host.run("qemu-img", "convert", "-O", "qcow2", raw, f"{work}/disk.qcow2")
    os.remove(raw)
    return f"{work}/disk.qcow2@2"


@pytest.mark.needs("qemu-img", "cryptsetup", "pkg-config")
def test_a_volume_is_read(work, key):
    name = encrypted_qcow2(work, key)
    before = images.contents(name.split("@")[0])
    run(build(work, "volume_test.c"), "read", name, key)
    assert images.contents(name.split("@")[0]) == before


@pytest.mark.needs("qemu-img", "cryptsetup", "pkg-config")
@pytest.mark.parametrize("static", [False, True])
def test_the_example(work, key, static):
    name = encrypted_qcow2(work, key)
    with open(EXAMPLE, encoding="ascii") as stream:
        assert len(stream.readlines()) <= 30
    program = build(work, EXAMPLE, static)
    assert run(program, name, key, "/hello") == "hello\n"
    run(program, name, key, "/missing", ok=1)
    run(program, f"{work}/missing.qcow2", key, "/hello", ok=1)


@pytest.mark.needs("pkg-config", "debugfs")
def test_a_volume_is_written(work):
    image = images.make(f"{work}/disk.img", "ext4")
    run(build(work, "volume_test.c"), "write", image, "/dev/null")
    images.check_unmounted_ext4(image)
    assert host.run("debugfs", "-R", "cat /file", image).stdout == "text\n"
    found = host.run("debugfs", "-R", "stat /file", image).stdout
    assert re.search(r"Mode: +0640", found) and re.search(r"User: +70000", found)
    found = host.run("debugfs", "-R", "ea_get /file user.one", image).stdout
    assert "(3)" in found, found


@pytest.mark.needs("pkg-config", "qemu-img")
def test_volumes_of_a_disk(work):
    name = os.path.join(os.path.realpath(work), "disk.qcow2")
    volume = images.make_ext4_of(f"{work}/ext4", tree(work), 32)
    script = "label: gpt\nstart=2048, size=65536\nstart=67584, size=65536\n"
    images.partitioned(f"{name}.base", script, {2048: volume, 67584: volume}, 68)
    host.run("qemu-img", "create", "-f", "qcow2", "-F", "raw", "-b", f"{name}.base", name)
    before = images.contents(f"{name}.base")
    run(build(work, "volume_disk_test.c"), name)
    host.run("qemu-img", "check", name)
    assert images.contents(f"{name}.base") == before


@pytest.mark.needs("pkg-config")
def test_volumes_start_from_snapshots(work):
    """As many as are open at a time, and those of others are no reason to fail."""
    image = images.make_ext4_of(f"{work}/disk.img", tree(work))
    program, snapshots = build(work, "volume_test.c"), f"{work}/snapshots"
    os.mkdir(snapshots, 0o700)
    run(program, "boot", image, snapshots)
    saved = {name for name in os.listdir(snapshots) if name.endswith(".snapshot")}
    assert len(saved) == 2
    run(program, "start", image, snapshots)
    assert {name for name in os.listdir(snapshots) if name.endswith(".snapshot")} == saved
    os.chmod(snapshots, 0o777)
    run(program, "boot", image, snapshots)
    run(program, "boot", image, f"{work}/missing")


def large_tree(work):
    os.makedirs(f"{work}/tree/deep")
    images.write_noise(f"{work}/tree/noise", 1)
    os.link(f"{work}/tree/noise", f"{work}/tree/deep/hard")
    os.symlink("deep/hard", f"{work}/tree/link")
    with open(f"{work}/tree/empty", "wb"):
        pass
    os.chmod(f"{work}/tree/empty", 0o4700)
    os.utime(f"{work}/tree/deep", (1, 2))
    # Too large to be copied before it is cancelled.
    host.sparse_file(f"{work}/large", 0)
    with open(f"{work}/large", "wb") as stream:
        for _ in range(600):
            stream.write(b"x" * images.MEGABYTE)


@pytest.mark.needs("pkg-config", "tar", "zstd", "xz")
def test_trees_go_in_and_out(work):
    image = images.make(f"{work}/disk.img", "ext4", 1024)
    large_tree(work)
    os.link(image, f"{work}/linked.img")
    run(build(work, "volume_trees_test.c"), image, work)
    images.check_unmounted_ext4(image)
    host.run("diff", "-r", "--no-dereference", f"{work}/tree", f"{work}/back")
    back = os.stat(f"{work}/back/noise")
    assert back.st_nlink == 2
    assert os.stat(f"{work}/back/empty").st_mode == os.stat(f"{work}/tree/empty").st_mode
    assert os.stat(f"{work}/back/deep").st_mtime == 2
    for name, option in ("plain", ""), ("gzip", "-z"), ("zstd", "--zstd"), ("xz", "-J"):
        directory = f"{work}/{name}"
        os.mkdir(directory)
        words = [option] if option else []
        host.run("tar", *words, "-xf", f"{work}/{name}.tar", "-C", directory)
        host.run("diff", "-r", "--no-dereference", f"{work}/tree", directory)
        # The library has unpacked these archives.
        found = host.run("debugfs", "-R", f"ls -p /unpacked/{name}.tar", image).stdout
        assert all(f"/{part}/" in found for part in ("deep", "noise", "link", "empty")), found


def overwrite(path, offset, content):
    with open(path, "r+b") as stream:
        stream.seek(offset)
        stream.write(content)


def fails(program, name, key, error):
    return run(program, "fail", name, key, error)


@pytest.mark.needs("qemu-img", "cryptsetup", "pkg-config")
def test_what_cannot_be_opened(work, key):
    name, program = encrypted_qcow2(work, key), build(work, "volume_test.c")
    image = name.split("@")[0]
    # Messages name no option of the program: a caller of the library has other means.
    shown = fails(program, name, "", "key-needed")
    assert f"{name} is encrypted: give its key\n" in shown
    shown = fails(program, name, "another key", "wrong-key")
    assert image in shown and "--" not in shown
    assert "missing.img" in fails(program, f"{work}/missing.img", "", "not-found")
    fails(program, f"{image}@7", "", "not-found")
    noise = images.write_noise(f"{work}/noise.img", 1)
    fails(program, noise, "", "not-a-file-system")
    whole = host.run("head", "-c", "104", image, text=False).stdout
    for table in QCOW2_TABLES:
        overwrite(image, table, struct.pack(">Q", 1 << 40))
        assert "beyond the file's end" in fails(program, name, "a key", "damaged")
        overwrite(image, 0, whole)


@pytest.mark.needs("debugfs", "pkg-config")
@pytest.mark.kernel_reports("the image is damaged")
def test_the_kernel_says_why(work):
    image = images.make(f"{work}/disk.img", "ext4")
    host.run("debugfs", "-w", "-R", "clri <2>", image)
    shown = fails(build(work, "volume_test.c"), image, "", "damaged")
    assert image in shown
    assert re.search(r"^EXT4-fs .*root inode failed$", shown, re.MULTILINE), shown


@pytest.mark.needs("debugfs", "tune2fs", "pkg-config")
@pytest.mark.kernel_reports("the image makes the kernel panic")
def test_a_panic_is_contained(work):
    directory = tree(work)
    with open(f"{directory}/trap", "wb"):
        pass
    image = images.make_ext4_of(f"{work}/trap.img", directory)
    other = f"{work}/other.img"
    host.copy_sparse(image, other)
    host.run("debugfs", "-w", "-R", "clri /trap", image)
    host.run("tune2fs", "-e", "panic", image)
    run(build(work, "volume_test.c"), "panic", image, other)
    assert not os.path.exists(f"{other}.copy")


@pytest.mark.needs("pkg-config", "qemu-img")
@pytest.mark.kernel_reports("the host refuses writes of the image")
@pytest.mark.parametrize("kind", ["raw", "qcow2", "vhd"])
def test_an_image_has_no_room(work, kind):
    """The message names the image and the limit of its process."""
    raw = images.make(f"{work}/raw", "ext4", 64)
    image = f"{work}/disk.{kind}"
    driver = ["vpc", "-o", "subformat=dynamic,force_size"] if kind == "vhd" else [kind]
    host.run("qemu-img", "convert", "-f", "raw", "-O", *driver, raw, image)
    limit = 4 << 20 if kind == "raw" else os.path.getsize(image) + (4 << 20)
    shown = run(build(work, "volume_room_test.c"), image, str(limit))
    assert re.search(rf"{image}: its file may not become larger than \S+ MiB \(ulimit -f\)", shown)


@pytest.mark.needs("pkg-config")
def test_closed_standard_descriptors(work):
    image = images.make_ext4_of(f"{work}/disk.img", tree(work))
    before = images.contents(image)
    run(build(work, "volume_descriptors_test.c"), image)
    assert images.contents(image) == before


@pytest.mark.needs("valgrind", "pkg-config")
def test_nothing_leaks(work):
    """Valgrind cannot run a kernel, but calls that fail before they boot one."""
    program = build(work, "volume_test.c")
    done = subprocess.run(["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", program,
                           "fail", f"{work}/missing.img", "", "not-found"], timeout=300,
                          env={**os.environ, "LD_LIBRARY_PATH": capi.LIBRARIES},
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.needs("pkg-config", "mkfifo")
def test_calls_end_without_harm(work):
    directory = tree(work)
    os.mkfifo(f"{directory}/fifo")
    os.rename(f"{directory}/hello", f"{directory}/file")
    with open(f"{directory}/file", "w", encoding="ascii") as stream:
        stream.write("text\n")
    image = images.make_ext4_of(f"{work}/disk.img", directory, 1024)
    images.make(f"{work}/image", "ext4")
    with open(f"{work}/large", "wb") as stream:
        for _ in range(600):
            stream.write(b"x" * images.MEGABYTE)
    run(build(work, "volume_ends_test.c"), image, work)


def server_words(found):
    """The key file of a share, if it has one: a further word of volume_server_test."""
    return [word for word in found.options if word != "--key-file"]


@pytest.mark.needs_root
@pytest.mark.needs("pkg-config")
@pytest.mark.parametrize("protocol", ["nfs", "smb", "9p"])
def test_the_tree_of_a_server(work, protocol):
    program = build(work, "volume_server_test.c")
    with servers.share(protocol, work) as found:
        run(program, "good", found.name(), *server_words(found))
        with open(os.path.join(found.server.export, "made", "file"), encoding="ascii") as stream:
            assert stream.read() == "text"
        # Over libslirp, as by default.
        words = [found.name(), *(server_words(found) or ["/dev/null"]), "/made/file"]
        assert run(build(work, EXAMPLE), *words) == "text"


@pytest.mark.needs_root
@pytest.mark.needs("pkg-config")
@pytest.mark.parametrize("protocol", ["nfs", "smb", "9p"])
def test_what_a_server_refuses(work, protocol):
    program = build(work, "volume_server_test.c")
    with servers.share(protocol, work) as found:
        words = server_words(found)
        # diod refuses the trees that it does not have.
        missing = "permission-denied" if protocol == "9p" else "not-found"
        run(program, "refused", found.name() + "-no", missing, *words)
        if protocol == "smb":
            run(program, "refused", found.name(), "key-needed")
            with open(f"{work}/wrong", "w", encoding="ascii") as stream:
                stream.write("no password\n")
            run(program, "refused", found.name(), "permission-denied", f"{work}/wrong")
    run(program, "refused", found.name(), "unreachable", *words)


class Talk:
    """A program that prints a word, and waits for a line."""

    def __init__(self, *words):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env={**os.environ, "LD_LIBRARY_PATH": capi.LIBRARIES})

    def wait_for(self, word):
        assert self.process.stdout.readline().decode() == f"{word}\n"

    def go_on(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def check_end(self):
        assert self.process.wait(240) == 0


@contextlib.contextmanager
def talk(*words):
    started = Talk(*words)
    try:
        yield started
        started.check_end()
    finally:
        started.process.kill()
        started.process.communicate()


# The client of SMB connects again for half a minute.
@pytest.mark.needs_root
@pytest.mark.needs("pkg-config")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", ["nfs", "9p", pytest.param("smb", marks=pytest.mark.long)])
@pytest.mark.parametrize("mode,kind", [("silent", "silent"), ("ended", "end")])
def test_calls_to_a_lost_server_end(work, protocol, mode, kind):
    """By limits of the caller, by the limit of the server; and nothing is left of the volume."""
    program = build(work, "volume_server_test.c")
    with servers.share(protocol, work) as found:
        with bad_servers.before(found.server.port, kind, 1 << 40) as proxy:
            with talk(program, mode, found.name(proxy.port), *server_words(found)) as started:
                started.wait_for("open")
                proxy.begin()
                started.go_on()


@pytest.mark.long
@pytest.mark.needs_root
@pytest.mark.needs("pkg-config")
@pytest.mark.parametrize("protocol", ["nfs", "9p"])
def test_a_slow_server_is_not_given_up(work, protocol):
    """A call is cancelled while the server is slow. The volume is idle then, and works later."""
    program = build(work, "volume_server_test.c")
    with servers.share(protocol, work) as found:
        with talk(program, "slow", found.name()) as started:
            started.wait_for("open")
            found.server.stop_answering()
            started.go_on()
            started.wait_for("late")
            found.server.answer_again()
            started.go_on()


@pytest.mark.needs("pkg-config", "mke2fs", "mkfs.vfat", "mksquashfs", "sfdisk", "debugfs")
def test_images_are_made(work):
    os.rename(tree(work), f"{work}/tree")
    images.write_noise(f"{work}/tree/noise", 2)
    DAMAGE["ext4"](images.make_ext4_of(f"{work}/damaged.img", f"{work}/tree"))
    run(build(work, "volume_make_test.c"), work)
    found = json.loads(host.run("sfdisk", "--json", f"{work}/disk.img").stdout)
    sizes = [entry["size"] for entry in found["partitiontable"]["partitions"]]
    assert sizes[0] == 8 * 2048 and sizes[1] > 50 * 2048
    for name in "grown.img", "damaged.img", "locked.img", "watched.img":
        images.check_unmounted_ext4(f"{work}/{name}")
    # The umask of the program.
    assert os.stat(f"{work}/grown.img").st_mode & 0o777 == 0o640
    made = {"disk.img", "large.img", "tree.qcow2", "root.squashfs", "grown.img", "damaged.img",
            "locked.img", "watched.img"}
    assert {name for name in os.listdir(work) if "." in name} == made


def code_of(path):
    """A file of C without its comments and strings."""
    with open(path, encoding="ascii") as stream:
        return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', "", stream.read(), flags=re.S)


def declared_functions():
    return set(re.findall(r"(?<!typedef int )\b(ob_volume_\w+)\(", code_of(HEADER)))


def test_exported_symbols():
    """The functions of the header, and nothing else."""
    declared = declared_functions()
    assert len(declared) > 40
    assert capi.defined_symbols("-D", LIBRARY) == declared
    archive = LIBRARY.replace(".so", ".a")
    assert capi.defined_symbols("-g", "--defined-only", archive) == declared


def test_every_function_is_tested():
    text = "".join(code_of(os.path.join(capi.HERE, name))
                   for name in ("volume_test.c", "volume_trees_test.c", "volume_disk_test.c",
                                "volume_ends_test.c", "volume_make_test.c", "volume_server_test.c",
                                "volume_check.h"))
    missing = [name for name in declared_functions() if f"{name}(" not in text]
    assert not missing


@pytest.mark.parametrize("compiler,standard", [("gcc", "c99"), ("g++", "c++11")])
def test_the_header_stands_alone(work, compiler, standard):
    source = os.path.join(work, "alone.cc" if compiler == "g++" else "alone.c")
    with open(source, "w", encoding="ascii") as stream:
        stream.write("#include <outboard/volume.h>\n#include <outboard/outboard.h>\n")
    capi.run(compiler, f"-std={standard}", "-pedantic", "-Wall", "-Wextra", "-Werror",
             "-fsyntax-only", source, "-I", os.path.join(capi.OUT, "include"))
