# SPDX-License-Identifier: GPL-2.0-only
"""The program's commands: what they print, how cp chooses names, what --ro promises."""

import itertools
import json
import os
import pty
import re
import select
import shlex
import stat
import struct
import subprocess
import time

import pytest

from support import host, images, program, trees
from support.images import MEGABYTE
from support.json_output import document, items
from support.processes import wait_until_closed
from support.program import bad, good, run

COMMANDS = ("info", "ls", "cat", "stat", "cp", "mv", "rm", "mkdir", "rmdir", "ln", "chmod",
            "chown", "touch", "truncate", "find", "tree", "du", "df", "sync", "tar-in", "tar-out")


def test_number_of_vcpus(work):
    """Those of the host, at most 4, unless it is given: 1 to 64."""
    image = images.make(f"{work}/disk.img", "ext4", 16)

    def vcpus(*words, prefix=()):
        done = run("-vv", *words, "ls", f"{image}:/", prefix=prefix)
        assert done.code == 0, str(done)
        return int(re.search(r"SLUB:.* CPUs=(\d+)", done.err)[1])

    usable = os.sched_getaffinity(0)
    assert vcpus() == min(len(usable), 4)
    assert vcpus(prefix=("taskset", "-c", str(min(usable)))) == 1
    for count in (1, 5, 64):
        assert vcpus("--vcpus", count) == count


@pytest.fixture
def tree(work):
    """A small tree with one of each kind that a host user may make."""
    path = f"{work}/tree"
    os.makedirs(f"{path}/folder/deeper")
    for name, content in (("hello", b"hello\n"), ("folder/inner", b"inner\n"),
                          (".hidden", b"dot\n"), ("twelve", b"x" * 12)):
        with open(f"{path}/{name}", "wb") as stream:
            stream.write(content)
    os.symlink("hello", f"{path}/link")
    os.chmod(f"{path}/twelve", 0o640)
    os.utime(f"{path}/twelve", ns=(10**18, 10**18))
    return path


@pytest.fixture
def image(work, tree):
    return images.make_ext4_of(f"{work}/disk.img", tree, 64, "-L", "LABELLED",
                               "-U", "11111111-2222-3333-4444-555555555555")


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


# ---- help and version ----


@pytest.mark.parametrize("words", [("--help",), *((command, "--help") for command in COMMANDS)],
                         ids=" ".join)
def test_help(words):
    shown = good(*words)
    assert "usage" in shown.out.lower() and not shown.err
    if len(words) == 1:
        assert all(command in shown.out for command in COMMANDS)


def examples():
    """Command lines of all help texts."""
    commands = re.findall(r"^  ([a-z-]+)  ", good("--help").out, re.MULTILINE)
    texts = [good(command, "--help").out for command in commands if command != "help"]
    lines = [line.strip() for text in texts for line in text.split("Example")[-1].splitlines()]
    return [line for line in lines if line.startswith("outboard ")]


def test_examples_of_help_are_understood(work):
    """There is nothing of what they name; but how they are written is never what is wrong."""
    found = examples()
    assert len(found) > 60
    for line in found:
        command, *_remark = line.split("   ")
        words = itertools.takewhile(lambda word: word[0] not in "|<>#", shlex.split(command)[1:])
        done = run(*words, cwd=work)
        assert "not a place in an image" not in done.err, f"{line}\n{done}"
        assert "Usage:" not in done.err, f"{line}\n{done}"


@pytest.mark.parametrize(("words", "hint"), [
    (("ls", "{image}:"), "as in {image}:/\n"), (("ls", "{image}:hello"), "as in {image}:/hello\n"),
    (("stat", "{image}"), "as in {image}:/\n"),
    (("ls", "{image}.none"), "{image}.none: No such file or directory\n"),
    (("info", "{image}:/"), "is a place in an image: write the image's name, {image}\n"),
    (("fsck", "{image}:/"), "write the image's name, {image}\n"),
    (("mkfs", "ext4", "{image}.new", "--from", "{image}:/folder"),
     "--from takes a directory or an archive of the host")])
def test_what_was_meant_is_said(image, words, hint):
    done = run(*(word.format(image=image) for word in words))
    assert done.code in (1, 2, 8) and hint.format(image=image) in done.err, str(done)


def test_version():
    shown = good("--version").out
    assert shown.startswith("outboard ")


# ---- info ----


def test_info_of_a_whole_disk(image):
    shown = good("info", image).out
    for word in ("ext4", "LABELLED", "11111111-2222-3333-4444-555555555555", "clean"):
        assert word in shown, shown
    assert "not clean" not in shown, shown


def partitioned(work, label, image):
    """ext4 as partition 1, xfs as partition 2."""
    second = images.make(f"{work}/second.img", "xfs", 320, "-L", "SECOND")
    script = f"label: {label}\nstart=2048, size=131072\nstart=133120, size=655360\n"
    return images.partitioned(f"{work}/{label}.img", script, {2048: image, 133120: second}, 448)


@pytest.mark.parametrize("label", ["gpt", "dos"])
def test_partitions(work, image, label):
    disk = partitioned(work, label, image)
    shown = good("info", disk).out
    for word in ("ext4", "LABELLED", "xfs", "SECOND"):
        assert word in shown, shown
    assert good("cat", f"{disk}@1:/hello").out == "hello\n"
    good("cp", f"{disk}@1:/hello", f"{disk}@2:/copied")
    assert good("cat", f"{disk}@2:/copied").out == "hello\n"
    several = run("ls", f"{disk}:/")
    assert several.code == 1 and "@1" in several.err and "@2" in several.err, str(several)


def test_the_only_partition_needs_no_number(work, image):
    disk = images.partitioned(f"{work}/one.img", "label: gpt\nstart=2048, size=131072\n",
                              {2048: image}, 128)
    assert good("cat", f"{disk}:/hello", notes=["the only one"]).out == "hello\n"


@pytest.mark.parametrize("label", ["gpt", "dos"])
def test_logical_partition_numbers(work, image, label):
    """N is the number of the partition table: 5 is the first logical one of an MBR, and a GPT may
    have gaps.
    """
    extended = "1 : start=2048, size=150000, type=5\n" if label == "dos" else ""
    script = f"label: {label}\n{extended}5 : start=4096, size=131072\n"
    disk = images.partitioned(f"{work}/gaps.img", script, {4096: image}, 128)
    assert good("cat", f"{disk}@5:/hello").out == "hello\n"


@pytest.mark.parametrize("label", ["gpt", "dos"])
def test_info_json(work, image, label):
    shown = document(good("info", "--json", partitioned(work, label, image)))
    text = json.dumps(shown)
    for word in ("ext4", "LABELLED", "11111111-2222-3333-4444-555555555555", "xfs", "SECOND"):
        assert word in text, text


# ---- ls, cat, stat ----


def test_ls(image):
    assert good("ls", f"{image}:/").out.split() == ["folder", "hello",
                                                    "link", "lost+found", "twelve"]
    assert ".hidden" in good("ls", "-a", f"{image}:/").out
    assert good("ls", f"{image}:/folder").out.split() == ["deeper", "inner"]
    assert good("ls", f"{image}:/folder/inner").out.strip().endswith("inner")


def test_ls_recursive(image):
    shown = good("ls", "-R", f"{image}:/").out
    assert "deeper" in shown and "inner" in shown


def test_ls_long(image, tree):
    lines = good("ls", "-l", f"{image}:/").out.splitlines()
    for name in ("hello", "twelve", "folder", "link"):
        info = os.lstat(f"{tree}/{name}")
        line, = [line for line in lines if name in line.split()[:-2] + line.split()[-1:]
                 and (name != "hello" or "->" not in line)]
        assert stat.filemode(info.st_mode) in line
        assert str(info.st_nlink) in line.split()
        assert name == "link" or stat.S_ISDIR(info.st_mode) or str(info.st_size) in line.split()
    assert any("link -> hello" in line for line in lines)
    assert any("twelve" in line and "2001" in line for line in lines)


@pytest.mark.parametrize("options", ("-t", "-S", "-rt", "-rS", "-r", "-at", "-1"))
def test_ls_in_other_orders(image, tree, options):
    os.rmdir(f"{tree}/folder/deeper")
    for number in range(8):
        with open(f"{tree}/folder/f{number}", "w", encoding="ascii") as stream:
            stream.write("x" * (number * 5 % 7))
        os.utime(f"{tree}/folder/f{number}", ns=(0, 10**18 + number * 3 % 5))
    good("cp", "-a", f"{tree}/folder", f"{image}:/copied")
    expected = host.run("ls", options, f"{tree}/folder", LC_ALL="C").stdout
    assert good("ls", options, f"{image}:/copied").out.split() == expected.split()


def test_ls_of_a_directory_itself(image):
    assert good("ls", "-d", f"{image}:/folder", f"{image}:/hello").out.split() == [
        f"{image}:/folder", f"{image}:/hello"]
    line, = good("ls", "-ld", f"{image}:/folder").out.splitlines()
    assert line.startswith("drwx") and line.endswith(f"{image}:/folder")


def test_ls_with_inodes_and_sizes(image):
    found = {os.path.basename(entry["path"]): entry
             for entry in items(good("ls", "--json", f"{image}:/"))}
    for line in good("ls", "-i", f"{image}:/").out.splitlines():
        number, name = line.split()
        assert int(number) == found[name]["inode"]
    good("truncate", "-s", "1536", f"{image}:/twelve")
    bad("truncate", "-s", "12x", f"{image}:/twelve", code=2, mentions=["12x", "powers of 1000"])
    line, = good("ls", "-lhi", f"{image}:/twelve").out.splitlines()
    assert line.split()[0] == str(found["twelve"]["inode"]) and line.split()[5] == "1.5K"


def test_ls_tells_of_access_lists(image):
    good("setfacl", "-m", "u:7:r", f"{image}:/hello")
    good("setfacl", "-d", "-m", "u:7:r", f"{image}:/folder")
    modes = {line.split()[-1]: line.split()[0]
             for line in good("ls", "-l", f"{image}:/").out.splitlines()[1:]}
    assert modes["hello"] == "lrwxrwxrwx" or modes["hello"].endswith("+")
    assert modes["folder"].endswith("+") and not modes["twelve"].endswith("+")
    line, = good("ls", "-l", f"{image}:/hello").out.splitlines()
    assert line.split()[0].endswith("+")


def test_several_paths(image):
    assert good("cat", f"{image}:/hello", f"{image}:/folder/inner").out == "hello\ninner\n"
    shown = good("ls", f"{image}:/folder", f"{image}:/hello").out
    assert "deeper" in shown and "hello" in shown


def test_one_bad_path_of_several(image):
    """The others are done, the exit code is 1."""
    result = run("cat", f"{image}:/hello", f"{image}:/absent", f"{image}:/folder/inner")
    assert result.code == 1 and "absent" in result.err
    assert result.out == "hello\ninner\n"


def test_stat(image):
    shown = good("stat", f"{image}:/twelve").out
    assert "twelve" in shown and "12" in shown and "640" in shown and "2001" in shown


def test_stat_has_the_names_of_the_image(work, image):
    for name, text in (("passwd", "ann:x:1234:50::/:\n"), ("group", "staff:x:77:\n")):
        with open(f"{work}/{name}", "w", encoding="utf-8") as stream:
            stream.write(text)
    good("mkdir", "-p", f"{image}:/etc")
    good("cp", f"{work}/passwd", f"{work}/group", f"{image}:/etc")
    for owner, uid, gid in (("1234:77", "( 1234/     ann)", "(   77/   staff)"),
                            ("5:6", "(    5/ UNKNOWN)", "(    6/ UNKNOWN)")):
        good("chown", owner, f"{image}:/hello")
        assert f"Uid: {uid}   Gid: {gid}\n" in good("stat", f"{image}:/hello").out


# ---- names of images ----


@pytest.mark.parametrize("name", [
    "with space.img", "at@home.img", "colon:name.img", "größe.img", "-dash.img"])
def test_names_of_images(work, image, name):
    os.rename(image, f"{work}/{name}")
    assert good("cat", f"{work}/{name}:/hello").out == "hello\n"
    assert good("cat", f"./{name}:/hello", cwd=work).out == "hello\n"


def test_symbolic_link_to_an_image(work, image):
    os.symlink("disk.img", f"{work}/alias")
    assert good("cat", f"{work}/alias:/hello").out == "hello\n"


@pytest.mark.needs_root
@pytest.mark.skipif(not host.may_mount(), reason="no loop devices here")
def test_block_device(image):
    with host.loop_device(image) as device:
        assert good("cat", f"{device}:/hello").out == "hello\n"
        good("cp", f"{program.REPOSITORY}/Makefile", f"{device}:/")
    host.run("e2fsck", "-f", "-n", image)


# ---- cp ----


def test_cp_into_a_directory(work, image, tree):
    good("cp", f"{tree}/hello", f"{tree}/twelve", f"{image}:/folder")
    assert (good("cat", f"{image}:/folder/hello", f"{image}:/folder/twelve").out
            == "hello\n" + "x" * 12)
    os.mkdir(f"{work}/into")
    good("cp", f"{image}:/hello", f"{image}:/folder/inner", f"{work}/into")
    assert read(f"{work}/into/hello") == b"hello\n" and read(f"{work}/into/inner") == b"inner\n"


def test_cp_to_a_new_name(work, image, tree):
    good("cp", f"{tree}/hello", f"{image}:/folder/renamed")
    assert good("cat", f"{image}:/folder/renamed").out == "hello\n"
    good("cp", f"{image}:/hello", f"{work}/renamed")
    assert read(f"{work}/renamed") == b"hello\n"


def test_cp_replaces(image, tree):
    """A longer file is replaced by a shorter one: nothing of the old may stay."""
    good("cp", f"{tree}/hello", f"{image}:/twelve")
    assert good("cat", f"{image}:/twelve").out == "hello\n"


def test_cp_several_to_no_directory(image, tree):
    result = run("cp", f"{tree}/hello", f"{tree}/twelve", f"{image}:/absent")
    assert result.code in (1, 2) and "absent" in result.err, str(result)


def test_cp_directory_names(work, image, tree):
    """As cp -r: into an existing directory under its own name, else as the new name."""
    good("cp", "-r", f"{tree}/folder", f"{image}:/folder")
    good("cp", "-r", f"{tree}/folder", f"{image}:/fresh")
    assert (good("cat", f"{image}:/folder/folder/inner", f"{image}:/fresh/inner").out
            == "inner\ninner\n")
    os.mkdir(f"{work}/existing")
    good("cp", "-r", f"{image}:/folder", f"{work}/existing")
    assert read(f"{work}/existing/folder/inner") == b"inner\n"


def test_cp_from_image_to_image(work, image, tree):
    other = images.make(f"{work}/other.img", "xfs")
    good("cp", "-a", f"{image}:/", f"{other}:/all")
    good("cp", "-a", f"{other}:/all", f"{work}/back")
    abilities = trees.Abilities().for_user(host.IS_ROOT)
    found = trees.describe(f"{work}/back")
    assert not trees.differences(trees.describe(tree), found,
                                 abilities.limited_to(time_step=trees.SECOND))
    host.run("xfs_repair", "-n", "-f", other)


def test_cp_within_one_image(image):
    good("cp", "-r", f"{image}:/folder", f"{image}:/again")
    assert good("cat", f"{image}:/again/inner").out == "inner\n"
    host.run("e2fsck", "-f", "-n", image)


def test_cp_from_the_host_to_the_host(work, tree):
    good("cp", "--force", f"{tree}/hello", f"{work}/there")
    assert read(f"{work}/there") == b"hello\n"


def test_cp_onto_itself(image):
    result = run("cp", f"{image}:/hello", f"{image}:/hello")
    assert result.code == 1 and "hello" in result.err, str(result)
    assert good("cat", f"{image}:/hello").out == "hello\n"


def test_cp_into_itself(image):
    result = run("cp", "-r", f"{image}:/folder", f"{image}:/folder/deeper", timeout=30)
    assert result.code == 1 and "folder" in result.err, str(result)


def test_cp_keeps_holes(work, image):
    with open(f"{work}/holes", "wb") as stream:
        stream.truncate(30 * MEGABYTE)
        stream.seek(20 * MEGABYTE)
        stream.write(b"data")
    good("cp", "-a", f"{work}/holes", f"{image}:/")
    shown = host.run("debugfs", "-R", "stat /holes", image).stdout
    blocks = int(shown.split("Blockcount:")[1].split()[0])
    assert blocks <= 64, shown
    good("cp", "-a", f"{image}:/holes", f"{work}/back")
    assert os.stat(f"{work}/back").st_blocks <= 64 and read(f"{work}/back") == read(f"{work}/holes")


def test_cp_without_a_takes_the_mode_and_not_the_time(work, image, tree):
    start = time.time() - 2
    good("cp", f"{tree}/twelve", f"{image}:/fresh")
    good("cp", "-a", f"{image}:/fresh", f"{work}/fresh")
    info = os.stat(f"{work}/fresh")
    assert info.st_mtime >= start and stat.S_IMODE(info.st_mode) == 0o640


# ---- output for people and for pipes ----


def test_no_progress_in_a_pipe(work, image):
    images.write_noise(f"{work}/noise", 30)
    result = good("cp", f"{work}/noise", f"{image}:/")
    assert result.out == "" and result.err == ""


def test_progress_on_a_terminal(work):
    images.write_noise(f"{work}/noise", 300)
    disk = images.make(f"{work}/progress.img", "ext4", 600)
    main, other = pty.openpty()
    with subprocess.Popen(program.command("cp", f"{work}/noise", f"{disk}:/"),
                          stdin=other, stdout=other, stderr=other,
                          env={**os.environ, "TERM": "xterm"}) as running:
        os.close(other)
        shown = drain(main)
        assert running.wait(timeout=60) == 0, shown
    os.close(main)
    assert b"\r" in shown and re.search(rb"\d+%|\d [KMG]i?B", shown), shown


def drain(terminal: int) -> bytes:
    """All that is written to a pseudo terminal until its other side closes."""
    shown = b""
    while select.select([terminal], [], [], 60)[0]:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    return shown


def on_a_terminal(*words) -> bytes:
    """The output of a run on a terminal, standard output and error together."""
    main, other = pty.openpty()
    with subprocess.Popen(program.command(*words), stdin=other, stdout=other,
                          stderr=other) as running:
        os.close(other)
        shown = drain(main)
        running.wait(timeout=60)
    os.close(main)
    return shown


def has_controls(shown: bytes) -> bool:
    """Whether a terminal would obey something in it, beyond ends of lines."""
    return any(ord(character) < 32 and character not in "\r\n" or 127 <= ord(character) < 160
               for character in shown.decode())


# Clears the screen; the second is the same in one character.
CLEAR = ("\x1b[2J", "\u009b2J")


@pytest.fixture
def evil(work):
    """A disk whose names, labels and links have control characters, and an inode that cannot be
    read.
    """
    names = [f"name{number}{clear}" for number, clear in enumerate(CLEAR)]
    for name in names:
        os.makedirs(f"{work}/evil/{name}/below")
        with open(f"{work}/evil/{name}/below/bad{CLEAR[0]}", "wb"):
            pass
        os.symlink(CLEAR[0], f"{work}/evil/{name}/link")
    part = images.make_ext4_of(f"{work}/evil.img", f"{work}/evil", 64,
                               "-L", f"L{CLEAR[0]}{CLEAR[1]}")
    bad = f"\"/{names[0]}/below/bad{CLEAR[0]}\""
    host.run("debugfs", "-w", "-R", f"clri {bad}", part)
    return part


@pytest.mark.parametrize(
    "words", [("ls", "-lR"), ("ls", "-R"), ("ls", "--json"), ("stat", "--json")], ids=" ".join)
def test_names_on_a_terminal(evil, words):
    places = ("/", f"/name0{CLEAR[0]}", f"/name0{CLEAR[0]}/below", f"/absent{CLEAR[1]}")
    shown = b"".join(on_a_terminal(*words, f"{evil}:{place}") for place in places)
    assert shown.count(b"2J") > 2 and not has_controls(shown), shown


def test_names_in_a_pipe(evil):
    shown = run("ls", "-R", f"{evil}:/").raw
    for clear in CLEAR:
        assert f"name{CLEAR.index(clear)}{clear}\n".encode() in shown, shown
        assert f"{clear}:\n".encode() in shown, shown


def test_names_in_messages(work, evil):
    os.makedirs(f"{work}/there/name1{CLEAR[1]}/below/bad{CLEAR[0]}")
    result = run("cp", "-r", f"{evil}:/.", f"{work}/there")
    assert result.code == 1 and result.err.count("cannot") == 2, str(result)
    assert "2J" in result.err and not has_controls(result.err.encode()), result.err


def with_apple_map(path, part):
    """A disk with one partition in an Apple partition map, whose name and type clear the screen."""
    host.sparse_file(path, 128 * MEGABYTE)
    host.run("dd", f"if={part}", f"of={path}", "bs=1M", "seek=1", "conv=notrunc,sparse",
             "status=none")
    clear = CLEAR[0].encode()
    with open(path, "r+b") as stream:
        stream.write(struct.pack(">2sH508x", b"ER", 512))
        stream.write(struct.pack(
            ">2s2xIII32s32s", b"PM", 1, 2048, 64 * 2048, b"name" + clear, b"type" + clear))
    return path


def test_labels_on_a_terminal(work, evil):
    for disk, expected in ((evil, b"L\\u{1b}[2J\\u{9b}2J"),
                           (with_apple_map(f"{work}/apple.img", evil), b"type\\u{1b}[2J")):
        shown = on_a_terminal("info", disk)
        assert expected in shown and not has_controls(shown), shown
        assert not has_controls(good("info", "--json", disk).raw)


def test_kernel_log(image):
    assert good("ls", f"{image}:/").err == ""
    shown = run("ls", f"{image}:/", OUTBOARD_LOG="info")
    assert shown.code == 0 and "EXT4-fs" in shown.err + shown.log


# ---- --ro: not one byte changes ----


def make_dirty_ext4(work):
    """A copy into the image was killed, so that its journal must be replayed."""
    disk = images.make(f"{work}/dirty.img", "ext4", 512)
    source = f"{work}/many"
    os.mkdir(source)
    for number in range(3000):
        with open(f"{source}/{number}", "wb") as stream:
            stream.write(b"%d" % number * 500)
    good("cp", f"{program.REPOSITORY}/Makefile", f"{disk}:/kept")
    for step in range(12):
        kill_while_it_writes(source, disk, 0.03 * step)
        if "needs_recovery" in host.run("dumpe2fs", "-h", disk).stdout:
            return disk
    pytest.fail("no killed copy left a journal to replay")


def kill_while_it_writes(source, disk, delay):
    """Kills a copy `delay` seconds after it began to write to the image."""
    before = os.stat(disk).st_mtime_ns
    with subprocess.Popen(program.command("cp", "-r", source, f"{disk}:/"),
                          stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        while os.stat(disk).st_mtime_ns == before and running.poll() is None:
            time.sleep(0.001)
        time.sleep(delay)
        running.kill()
    wait_until_closed(disk)


def make_dirty_xfs(work):
    """The host's kernel shuts the file system down with transactions in its log: xfs_io does that
    on purpose.
    """
    host.require_mount("xfs")
    disk = images.make(f"{work}/dirty.img", "xfs", 512)
    good("cp", f"{program.REPOSITORY}/Makefile", f"{disk}:/kept")
    with host.loop_mount(disk, "xfs") as directory:
        for number in range(100):
            os.mkdir(f"{directory}/{number}")
        host.run("xfs_io", "-x", "-c", "shutdown -f", directory)
    report = host.run("xfs_repair", "-n", "-f", disk, ok=None)
    assert "valuable metadata changes in a log" in report.stdout + report.stderr
    return disk


def use_everything(disk, place, notes=()):
    """Every command that reads."""
    run("info", disk)
    good("ls", "--ro", "-l", "-R", f"{disk}:/", notes=notes)
    good("cat", "--ro", f"{disk}:/kept", notes=notes)
    good("stat", "--ro", f"{disk}:/kept", notes=notes)
    good("cp", "--ro", "-a", f"{disk}:/", place, notes=notes)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "vfat"])
def test_ro_clean(work, kind):
    disk = images.make(f"{work}/clean.img", kind)
    good("cp", f"{program.REPOSITORY}/Makefile", f"{disk}:/kept")
    before = trees.sha256_of(disk)
    use_everything(disk, f"{work}/out")
    assert trees.sha256_of(disk) == before
    assert read(f"{work}/out/kept") == read(f"{program.REPOSITORY}/Makefile")


@pytest.mark.parametrize("make_dirty", [make_dirty_ext4, make_dirty_xfs], ids=["ext4", "xfs"])
def test_ro_with_a_dirty_journal(work, make_dirty):
    disk = make_dirty(work)
    before = trees.sha256_of(disk)
    assert "not clean" in run("info", disk).out
    use_everything(disk, f"{work}/out", notes=["without replaying its journal"])
    assert trees.sha256_of(disk) == before
    assert read(f"{work}/out/kept") == read(f"{program.REPOSITORY}/Makefile")


def test_reading_does_not_need_write_access(work, image):
    """--ro and a read-only file are the same: the file's mode stays, its bytes stay."""
    os.chmod(image, 0o444)
    before = trees.sha256_of(image)
    assert good("cat", "--ro", f"{image}:/hello").out == "hello\n"
    assert trees.sha256_of(image) == before


# ---- snapshots ----


def test_snapshots_are_kept_and_used(work, image):
    cache = f"{work}/cache/outboard"
    # Nothing may be created but snapshots.
    variables = {"XDG_CACHE_HOME": f"{work}/cache", "OUTBOARD_LOG_FILE": ""}
    first = good("ls", f"{image}:/", **variables).out
    assert stat.S_IMODE(os.stat(cache).st_mode) == 0o700
    (name,) = os.listdir(cache)
    assert name.endswith(".snapshot")
    before = os.stat(f"{cache}/{name}")
    opened = subprocess.run(["strace", "-f", "-e", "trace=openat",
                             *program.command("ls", f"{image}:/")], capture_output=True, text=True,
                            env={**os.environ, **variables},
                            check=True) if host.have("strace") else None
    if opened and "ptrace" not in opened.stderr:
        assert name in opened.stderr and "O_CREAT" not in opened.stderr
    assert good("ls", f"{image}:/", **variables).out == first
    assert os.stat(f"{cache}/{name}").st_ino == before.st_ino


@pytest.mark.parametrize(
    "variables", [{"OUTBOARD_SNAPSHOT": "off"}, {"XDG_CACHE_HOME": "/proc/nowhere"}], ids=str)
def test_without_snapshots(work, image, variables):
    variables = {"XDG_CACHE_HOME": f"{work}/cache", **variables}
    assert "hello" in good("ls", f"{image}:/", **variables).out
    assert not os.path.exists(f"{work}/cache/outboard") or not os.listdir(f"{work}/cache/outboard")


def test_verbose_shows_the_boot(work, image):
    variables = {"XDG_CACHE_HOME": f"{work}/cache"}
    for _ in range(2):
        assert "Linux version" in run("-v", "ls", f"{image}:/", **variables).err


@pytest.mark.needs("mkntfs", "ntfscat")
def test_all_of_a_file_is_valid_on_ntfs(work):
    """Linux's ntfs3 loses how much of a file is valid if it is written back while it grows; the
    copy sees to it.
    """
    noise = images.write_noise(os.path.join(work, "noise"), 3)
    with open(noise, "rb") as file:
        expected = file.read()
    for number in range(8):
        image = host.sparse_file(os.path.join(work, f"{number}.img"), 64 * MEGABYTE)
        host.run("mkntfs", "-F", "-q", "-f", image)
        good("cp", noise, f"{image}:/")
        assert host.run("ntfscat", image, "noise", text=False).stdout == expected
