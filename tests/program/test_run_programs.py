# SPDX-License-Identifier: GPL-2.0-only
"""Programs of an image as processes of the kernel: `outboard run`. The root is made of the host's
own programs with the libraries that they are linked with.
"""

import hashlib
import os
import random
import re
import shutil
import signal
import subprocess

import pytest

from support import host, images, program, programs

PROGRAMS = ("busybox", "cat", "dd", "grep", "ls", "head", "losetup", "md5sum", "mkdir", "mke2fs",
            "mount", "rm", "seq", "sleep", "stat", "sync", "true", "truncate", "umount", "unshare",
            "wc")
ACCOUNTS = {"passwd": "root:x:0:0::/root:/bin/sh\nann:x:7:8:Ann:/home/ann:/bin/sh\n",
            "group": "root:x:0:\nann:x:8:\nstaff:x:50:bob,ann\n", "hostname": "box.example\n"}


def make_foreign(tree, name, bits, machine):
    """A program whose ELF header says that it is one of another processor."""
    with open(shutil.which("true"), "rb") as stream:
        contents = bytearray(stream.read())
    contents[4], contents[18] = bits // 32, machine
    with open(os.path.join(tree, "bin", name), "wb") as stream:
        stream.write(contents)
    os.chmod(os.path.join(tree, "bin", name), 0o755)


@pytest.fixture(scope="module", name="tree")
def fixture_tree(tmp_path_factory):
    tree = str(tmp_path_factory.mktemp("root"))
    programs.make_root(tree, *PROGRAMS)
    with open(os.path.join(tree, "bin", "no-program"), "w", encoding="ascii") as stream:
        stream.write("\x01\x02\x03")
    os.chmod(os.path.join(tree, "bin", "no-program"), 0o755)
    make_foreign(tree, "aarch64", 64, 183)
    make_foreign(tree, "i386", 32, 3)
    with open(os.path.join(tree, "bin", "lost"), "w", encoding="ascii") as stream:
        stream.write("#!/bin/nothing\n")
    os.chmod(os.path.join(tree, "bin", "lost"), 0o755)
    with open(os.path.join(tree, "text"), "w", encoding="ascii") as stream:
        stream.write("of the image\n")
    os.makedirs(os.path.join(tree, "etc"), exist_ok=True)
    for name, text in ACCOUNTS.items():
        with open(os.path.join(tree, "etc", name), "w", encoding="ascii") as stream:
            stream.write(text)
    return tree


@pytest.fixture(scope="module", name="image")
def fixture_image(tree, tmp_path_factory):
    path = os.path.join(str(tmp_path_factory.mktemp("image")), "root.img")
    return images.make_ext4_of(path, tree)


def run(image, *words, given=b"", binds=(), **options):
    """Runs a program of the image to its end."""
    shown = [word for bind in binds for word in ("--bind", bind)]
    done = subprocess.run(program.command("run", *shown, image, "--", *words), input=given,
                          capture_output=True, timeout=120, check=False, **options)
    done.stderr = done.stderr.decode()
    return done


def script(image, text, **options):
    return run(image, "bash", "-c", text, **options)


def test_streams_and_status(image):
    done = script(image, "cat; echo seen >&2; exit 7", given=b"given")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"given", "seen\n")


def test_much_data_through_both_streams(image):
    given = os.urandom(20 << 20)
    done = script(image, "cat", given=given)
    assert done.stdout == given and done.returncode == 0
    done = run(image, "md5sum", given=given)
    assert done.stdout.split()[0].decode() == hashlib.md5(given).hexdigest()


@pytest.mark.parametrize("vcpus", (1, 4))
def test_pipelines(image, vcpus):
    words = ("run", image, "--", "bash", "-c", "for i in 1 2 3; do seq 1000 | wc -l; done")
    done = program.run(*words, vcpus=vcpus)
    assert (done.code, done.out) == (0, "1000\n" * 3), done


def test_a_signal_ends_the_program(image):
    assert script(image, "kill -TERM $$").returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("words,code,mentions", (
    (("/bin/nothing",), 127, "no such file"), (("nothing",), 127, "no such file"),
    (("/bin/lost",), 127, "interpreter"),
    (("/bin/aarch64",), 126, "x86-64"), (("/bin/i386",), 126, "x86-64"),
    (("/bin/no-program",), 126, "no program"), (("/text",), 126, "Permission denied"),
    (("/bin",), 126, "is a directory")))
def test_no_program(image, words, code, mentions):
    done = run(image, *words)
    assert done.returncode == code, done
    assert mentions in done.stderr and f"{words[0]} of {image}: " in done.stderr, done
    assert len(done.stderr.splitlines()) == 1


def test_no_image(work):
    done = run(os.path.join(work, "nothing.img"), "true")
    assert done.returncode == 125 and "nothing.img" in done.stderr, done


def options(image, given, text):
    words = program.command("run", *given, image, "--", "bash", "-c", text)
    done = subprocess.run(words, input=b"", capture_output=True, timeout=120, check=False,
                          env={**os.environ, "HOST_WORD": "of the caller"})
    done.stderr = done.stderr.decode()
    return done


def test_users_and_directories(image):
    text = "echo $UID $HOME; pwd; : > /new && echo made; grep Groups: /proc/self/status"
    done = options(image, ("--user", "ann", "--workdir", "/etc"), text)
    assert done.stdout.split(b"\n")[:2] == [b"7 /home/ann", b"/etc"], done
    assert b"made" not in done.stdout and b"\t50 \n" in done.stdout, done
    done = options(image, ("-u", "12:34"), "echo $UID $HOME; grep Gid: /proc/self/status")
    assert done.stdout == b"12 /\nGid:\t34\t34\t34\t34\n", done
    done = options(image, (), "echo $UID $HOME; pwd; grep CapEff: /proc/self/status")
    assert done.stdout.startswith(b"0 /root\n/\nCapEff:\t000001"), done


def test_variables_and_the_host_name(image):
    given = ("-e", "A=1", "--env", "A=2 3", "-e", "HOST_WORD", "-e", "NOT_THERE", "-e", "HOME=/x")
    done = options(image, given, "echo $A, $HOST_WORD, ${NOT_THERE-none}, $HOME, $HOSTNAME")
    assert done.stdout == b"2 3, of the caller, none, /x, box.example\n", done


@pytest.mark.parametrize("given,code,mentions", (
    (("--user", "bob"), 125, ("bob", "/etc/passwd", "number")),
    (("--user", "ann:wheel"), 125, ("wheel", "/etc/group")),
    (("--workdir", "/nowhere"), 127, ("/nowhere", "No such file")),
    (("--env", "=1"), 2, ("a variable has a name",)),
    (("--rw", "--ro"), 2, ("cannot be used with",))))
def test_wrong_options(image, given, code, mentions):
    done = options(image, given, "true")
    assert done.returncode == code, done
    assert all(word in done.stderr for word in mentions), done
    assert "os error" not in done.stderr, done


def test_programs_mount(image):
    """Their root is a real one, in a namespace of its own."""
    text = ("mount -t tmpfs none /tmp && echo a > /tmp/a && mkdir /other && "
            "mount --bind /tmp /other && cat /other/a && unshare -Urm true && echo apart; "
            "grep ' / / ' /proc/self/mountinfo | wc -l")
    assert script(image, text).stdout == b"a\napart\n1\n"


def test_programs_mount_what_they_made(image):
    """Loop devices, which mount(8) has open meanwhile; overlays; device nodes of the image."""
    text = ("mkdir /disk && truncate -s 8M /file && mke2fs -q -t ext4 /file && "
            "mount -o loop /file /disk && echo a > /disk/a && umount /disk && losetup -a && "
            "mount -o loop,ro /file /disk && cat /disk/a && mkdir /tmp/u /tmp/w /top && "
            "mount -t overlay -o lowerdir=/disk,upperdir=/tmp/u,workdir=/tmp/w none /top && "
            "echo b > /top/b && ls /tmp/u && busybox mknod /null c 1 3 && echo c > /null && "
            "grep -c '^/dev/vda / ext4 rw' /proc/mounts")
    done = script(image, text)
    assert (done.stdout, done.returncode) == (b"a\nb\n1\n", 0), done


@pytest.mark.parametrize("text", (
    "mount -o loop /file /disk; echo a > /disk/a",
    "losetup /dev/loop0 /file; unshare -m bash -c 'mount /dev/loop0 /disk; echo a > /disk/a; "
    "sleep 1000' & until grep -q . /sys/block/loop0/stat && [ -e /sys/fs/ext4/loop0 ]; do :; done; "
    "sleep 0.2"), ids=("here", "apart"))
def test_mounts_that_programs_leave_behind(image, work, text):
    """Both file systems end well: the image's, and that in a file of it."""
    copy = shutil.copy(image, os.path.join(work, "copy.img"))
    text = f"mkdir /disk && truncate -s 8M /file && mke2fs -q -t ext4 /file && {{ {text}; }}"
    assert options(copy, ("--rw",), text).returncode == 0
    assert state(copy) == "clean"
    host.run("e2fsck", "-fn", copy)
    inner = os.path.join(work, "inner.img")
    program.good("cp", f"{copy}:/file", inner)
    assert state(inner) == "clean"
    assert program.good("cat", f"{inner}:/a").out == "a\n"


def state(image):
    """What the superblock of an ext4 says."""
    lines = host.run("dumpe2fs", "-h", image).stdout
    return re.search(r"^Filesystem state: +(.*)$", lines, re.MULTILINE)[1]


def test_changes_that_stay(image, work):
    copy = shutil.copy(image, os.path.join(work, "copy.img"))
    text = "echo kept > /kept; rm /text; (sleep 1000; :) & mount -t tmpfs none /tmp; exit 3"
    assert options(copy, ("--rw",), text).returncode == 3
    assert state(copy) == "clean"
    host.run("e2fsck", "-fn", copy)
    done = program.good("cat", f"{copy}:/kept")
    assert done.out == "kept\n"
    assert program.run("cat", f"{copy}:/text").code == 1
    # The image had none of them.
    made = host.run("debugfs", "-R", "ls -l /", copy).stdout.splitlines()
    modes = {words[-1]: words[1] for words in map(str.split, made) if words}
    assert {name: modes[name] for name in ("proc", "sys", "dev", "tmp", "run")} == {
        "proc": "40555", "sys": "40555", "dev": "40755", "tmp": "41777", "run": "40755"}


def test_a_journal_is_replayed_in_memory(image, work):
    """The image was not left well: what its journal has is there, and the image stays as it is."""
    copy = shutil.copy(image, os.path.join(work, "copy.img"))
    host.run("debugfs", "-w", "-R", "feature needs_recovery", copy)
    with open(copy, "rb") as stream:
        before = hashlib.sha256(stream.read()).digest()
    done = script(copy, "echo new > /new && sync && cat /new")
    assert (done.stdout, done.stderr) == (b"new\n", "")
    with open(copy, "rb") as stream:
        assert hashlib.sha256(stream.read()).digest() == before


def test_one_writer(image, work):
    copy = shutil.copy(image, os.path.join(work, "copy.img"))
    words = program.command("run", "--rw", copy, "--", "bash", "-c", "echo ready; read line")
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout.readline() == b"ready\n"
        for given in (("--rw",), ()):
            done = options(copy, given, "true")
            assert done.returncode == 125 and "in use" in done.stderr, done
        running.communicate(b"\n")
        assert running.returncode == 0


def test_the_image_stays_as_it_is(image):
    with open(image, "rb") as stream:
        before = hashlib.sha256(stream.read()).digest()
    done = script(image, "echo changed > /text && cat /text && : > /bin/new && ls /bin/new")
    assert done.stdout == b"changed\n/bin/new\n", done
    with open(image, "rb") as stream:
        assert hashlib.sha256(stream.read()).digest() == before
    assert run(image, "cat", "/text").stdout == b"of the image\n"


def test_what_a_system_has(image):
    done = script(image, "cat /proc/sys/kernel/ostype; echo lost > /dev/null; head -c 3 /dev/zero |"
                         " wc -c; cat /dev/stdin; stat -c %a /tmp; umask;"
                         " [ -d /sys/class ] && echo sys",
                  given=b"in\n")
    assert done.stdout == b"Linux\n3\nin\n1777\n0022\nsys\n", done


def test_what_a_program_leaves_behind_ends(image):
    done = script(image, "sleep 1000 & echo started")
    assert (done.returncode, done.stdout) == (0, b"started\n")


def test_a_reader_that_goes(image):
    words = program.command("run", image, "--", "seq", "100000000")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        assert running.stdout.readline() == b"1\n"
        running.stdout.close()
        assert running.wait(60) == 128 + signal.SIGPIPE


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM))
def test_signals_are_passed_on(image, number):
    # A SIGINT just before bash waits for a program in the foreground is lost, on any Linux.
    text = "trap 'echo got; exit 3' INT TERM; echo ready; sleep 1000 & wait"
    words = program.command("run", image, "--", "bash", "-c", text)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        assert running.stdout.readline() == b"ready\n"
        running.send_signal(number)
        assert running.stdout.readline() == b"got\n"
        assert running.wait(60) == 3


def test_the_sandbox_is_closed_while_a_program_runs(image):
    words = program.command("run", image, "--", "bash", "-c", "echo ready; read line")
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout.readline() == b"ready\n"
        threads = [f"/proc/{running.pid}/task/{thread}/status"
                   for thread in os.listdir(f"/proc/{running.pid}/task")]
        for path in threads:
            with open(path, encoding="ascii") as lines:
                status = dict(line.split(":\t", 1) for line in lines)
            assert status["Seccomp"].strip() == "2" and int(status["CapEff"], 16) == 0, status
            assert int(status["Seccomp_filters"]) == 3 and status["NoNewPrivs"].strip() == "1"
        running.stdin.close()
        assert len(threads) > 2 and running.wait(60) == 1


def test_ten_at_once(image):
    words = program.command("run", image, "--", "bash", "-c", "echo a > /mine; cat /mine")
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
               for _ in range(10)]
    for one in running:
        assert one.communicate(timeout=120)[0] == b"a\n" and one.returncode == 0


def test_links_in_the_place_of_directories(tree, work):
    """The image has /dev, /proc and /tmp as links that lead up and out."""
    hostile = os.path.join(work, "hostile")
    shutil.copytree(tree, hostile, symlinks=True)
    for name in ("dev", "proc", "tmp"):
        os.symlink("../../../../../text", os.path.join(hostile, name))
    done = run(images.make_ext4_of(os.path.join(work, "hostile.img"), hostile), "true")
    assert done.returncode == 125 and "/proc" in done.stderr, done


@pytest.mark.parametrize("kind", ("squashfs", "erofs"))
def test_types_that_are_only_read(tree, work, kind):
    path = os.path.join(work, f"root.{kind}")
    if kind == "squashfs":
        host.run("mksquashfs", tree, path, "-quiet")
    else:
        host.run("mkfs.erofs", "--quiet", path, tree)
    assert script(path, "echo new > /new; cat /new /text").stdout == b"new\nof the image\n"


def test_directories_of_the_host(image, work):
    """In the sandbox; a directory that is not named stays out of reach."""
    for name in ("shared", "frozen", "other"):
        os.mkdir(f"{work}/{name}")
        with open(f"{work}/{name}/text", "w", encoding="ascii") as stream:
            stream.write(f"{name}\n")
    os.symlink(f"{work}/other/text", f"{work}/shared/link")
    done = script(image, "cat /srv/text /etc/one /top /made/too/text; cat /srv/link; "
                  "echo new > /srv/new; mkdir -p /srv/a/b; chown 5:6 /srv/a; echo x > /made/too/x",
                  binds=(f"{work}/shared:/srv", f"{work}/frozen:/made/too:ro",
                         f"{work}/other/text:/etc/one:ro", f"{work}/other/text:/top:ro"))
    assert done.stdout == b"shared\nother\nother\nfrozen\n"
    assert "/srv/link: No such file" in done.stderr
    assert "/made/too/x: Read-only file system" in done.stderr
    with open(f"{work}/shared/new", encoding="ascii") as stream:
        assert stream.read() == "new\n"
    assert os.listdir(f"{work}/frozen") == ["text"]


# Prints by how many KB the page cache has grown.
LARGE_FILES = """cached() { while read -r name value unit; do
    [ $name != Cached: ] || echo $value; done </proc/meminfo; }
cd /srv
before=$(cached)
dd if=large of=copy bs=1M status=none
echo $(($(cached) - before))
dd if=copy of=twice bs=4k status=none
dd if=twice of=over bs=1M status=none
dd if=large of=over bs=300k seek=1 conv=notrunc status=none
cat copy >>twice
dd if=over of=again bs=4k status=none
"""


def test_large_files_of_the_host(image, work):
    """Large pieces go past the page cache; small ones, which it keeps, show the same bytes."""
    os.mkdir(f"{work}/large")
    bytes_of_file = random.Random(1).randbytes((48 << 20) + 12345)
    with open(f"{work}/large/large", "wb") as stream:
        stream.write(bytes_of_file)
    done = script(image, LARGE_FILES, binds=(f"{work}/large:/srv",))
    assert done.returncode == 0 and int(done.stdout) < 16 << 10, done
    over = bytes_of_file[:300 << 10] + bytes_of_file
    for name, expected in (("copy", bytes_of_file), ("twice", bytes_of_file * 2), ("over", over),
                           ("again", over)):
        with open(f"{work}/large/{name}", "rb") as stream:
            assert stream.read() == expected, name


@pytest.mark.parametrize("bind,code,mentions", (
    ("/nowhere/at/all:/srv", 125, "/nowhere/at/all: No such file or directory"),
    ("/dev/null:/srv", 125, "/dev/null: it is neither a directory nor a regular file"),
    ("/srv", 2, "use HOST:/PATH"),
))
def test_no_directory_of_the_host(image, bind, code, mentions):
    done = run(image, "true", binds=(bind,))
    assert done.returncode == code and mentions in done.stderr
