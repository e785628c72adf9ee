# SPDX-License-Identifier: GPL-2.0-only
"""How ls and find -ls show files: names of owners, columns, letters after names."""

import os
import pty
import re
import subprocess

import pytest

from support import host, images, program
from support.program import good
from program.test_cli import drain

PASSWD = "root:x:0:0::/:/bin/sh\nann:x:1234:50::/:/bin/sh\n"
GROUP = "wheel:x:0:\nstaff:x:77:\n"


def write(path, text=""):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    return path


@pytest.fixture
def image(work):
    write(f"{work}/tree/etc/passwd", PASSWD)
    write(f"{work}/tree/etc/group", GROUP)
    write(f"{work}/tree/home/known")
    write(f"{work}/tree/home/strange")
    disk = images.make(f"{work}/disk.img", "ext4")
    good("cp", "-a", f"{work}/tree/.", f"{disk}:/")
    good("chown", "1234:77", f"{disk}:/home/known")
    good("chown", "4321:4321", f"{disk}:/home/strange")
    return disk


def owners(output):
    """The owner and group of each name."""
    return {line.split()[-1].rpartition("/")[2]: tuple(line.split()[2:4])
            for line in output.splitlines() if not line.startswith("total")}


NAMES = {"known": ("ann", "staff"), "strange": ("4321", "4321")}
NUMBERS = {"known": ("1234", "77"), "strange": ("4321", "4321")}


def test_owners_have_the_names_of_the_image(work, image):
    assert owners(good("ls", "-l", f"{image}:/home").out) == NAMES
    assert owners(good("ls", "-l", f"{image}:/home/known", f"{image}:/home/strange").out) == NAMES
    for options in ("-n", "-ln", "-nl"):
        assert owners(good("ls", options, f"{image}:/home").out) == NUMBERS
    other = images.make(f"{work}/other.img", "ext4")
    good("cp", "-a", f"{image}:/home", f"{other}:/")
    write(f"{work}/passwd", "bob:x:1234:1::/:/bin/sh\n")
    good("mkdir", f"{other}:/etc")
    good("cp", f"{work}/passwd", f"{other}:/etc/passwd")
    both = good("ls", "-l", f"{image}:/home/known", f"{other}:/home/known").out.splitlines()
    assert [line.split()[2:4] for line in both] == [
        ["ann", "staff"], ["bob", "77"]], "each image has names of its own"


@pytest.mark.needs_root
def test_numbers_of_owners_as_gnu(image):
    for options in ("-n", "-lni"):
        ours = good("ls", options, f"{image}:/home").out
        with host.loop_mount(image, "ext4", "ro") as mount:
            assert ours == host.run("ls", options, "--time-style=+%Y-%m-%d %H:%M", f"{mount}/home",
                                    LC_ALL="C", TZ="UTC").stdout
    named = good("ls", "-l", f"{image}:/home").out.splitlines()[1:]
    assert [line[:29] for line in named] == [
        "-rw-r--r-- 1 ann  staff 0 202", "-rw-r--r-- 1 4321  4321 0 202"]


def test_find_has_the_names_of_the_image(image):
    def found(*options):
        lines = good("find", *options, f"{image}:/home", "-type", "f", "-ls").out.splitlines()
        return {line.split()[-1].rpartition("/")[2]: tuple(line.split()[4:6]) for line in lines}

    assert found() == NAMES and found("-n") == NUMBERS


def test_names_that_would_confuse_are_numbers(work, image):
    write(f"{work}/passwd", "a\x1b[2J:x:1234:1::/:\nwith space:x:4321:1::/:\n")
    good("cp", f"{work}/passwd", f"{image}:/etc/passwd")
    assert owners(good("ls", "-l", f"{image}:/home").out) == {"known": ("1234", "staff"),
                                                              "strange": ("4321", "4321")}


@pytest.fixture
def many(work):
    tree = f"{work}/many"
    for name in ["a", "bb", "a-rather-long-name", "caf\u00e9",
                 *(f"file{number}" * (number % 4) or "x" for number in range(37))]:
        write(f"{tree}/{name}")
    os.mkdir(f"{tree}/directory")
    os.symlink("a", f"{tree}/link")
    os.mkfifo(f"{tree}/fifo")
    os.chmod(f"{tree}/bb", 0o755)
    disk = images.make(f"{work}/many.img", "ext4")
    good("cp", "-r", tree, f"{disk}:/")
    return tree, disk


def columns_by_gnu(tree, width, *options):
    """With blanks between the columns, as ours; GNU takes tabs."""
    return host.run("ls", "-C", "-T0", "-w", str(width), *options, tree,
                    LC_ALL="C.UTF-8", QUOTING_STYLE="literal").stdout


@pytest.mark.parametrize("width", [20, 40, 80, 200, 5])
@pytest.mark.parametrize("options", [[], ["-F"]], ids=["plain", "-F"])
def test_columns_as_gnu(many, width, options):
    tree, disk = many
    ours = good("ls", "-C", *options, f"{disk}:/many", COLUMNS=str(width)).out
    theirs = columns_by_gnu(tree, width, *options)
    assert ours.split() == theirs.split() and len(ours.splitlines()) == len(theirs.splitlines())
    assert all(len(line) <= width for line in ours.splitlines()) or width <= 20


def test_letters_after_names(many):
    tree, disk = many
    assert (good("ls", "-F", f"{disk}:/many").out
            == host.run("ls", "-1F", tree, LC_ALL="C.UTF-8", QUOTING_STYLE="literal").stdout)
    long = good("ls", "-lF", f"{disk}:/many").out.splitlines()
    assert {"directory/", "bb*", "fifo|", "a"} <= {line.split()[-1] for line in long}
    assert any(line.endswith(" link -> a") for line in long)


def test_letters_after_targets_of_links(work):
    """Links lead where they lead inside the image."""
    tree = f"{work}/tree"
    os.makedirs(f"{tree}/here/below")
    for name, target in (("directory", "below"), ("program", "run"), ("nowhere", "none"),
                         ("link", "program"), ("outside", "/here/below"), ("up", "../here/run")):
        os.symlink(target, f"{tree}/here/{name}")
    write(f"{tree}/here/run")
    os.chmod(f"{tree}/here/run", 0o755)
    disk = images.make_ext4_of(f"{work}/links.img", tree, 16)
    long = good("ls", "-lF", f"{disk}:/here").out.splitlines()
    shown = {re.sub(r"^.*\d\d:\d\d ", "", line) for line in long}
    assert {"directory -> below/", "program -> run*", "nowhere -> none", "link -> program*",
            "outside -> /here/below/", "up -> ../here/run*", "run*"} <= shown, shown
    assert good("ls", "-lF", f"{disk}:/here/up").out.endswith("up -> ../here/run*\n")
    assert "outside -> /here/below\n" in good("ls", "-l", f"{disk}:/here").out


def test_almost_all_names(work):
    write(f"{work}/tree/.hidden")
    write(f"{work}/tree/shown")
    disk = images.make_ext4_of(f"{work}/hidden.img", f"{work}/tree", 16)
    assert good("ls", "-A", f"{disk}:/").out.split() == [".hidden", "lost+found", "shown"]


def on_a_terminal(*words, **variables):
    main, other = pty.openpty()
    with subprocess.Popen(program.command(*words), stdin=other, stdout=other,
                          stderr=other, env={**os.environ, **variables}) as running:
        os.close(other)
        shown = drain(main)
        assert running.wait(timeout=60) == 0
    os.close(main)
    return shown.decode()


def test_columns_are_for_terminals(many):
    _, disk = many
    assert len(good("ls", f"{disk}:/many").out.splitlines()) == len(
        good("ls", "-1", f"{disk}:/many").out.splitlines())
    shown = on_a_terminal("ls", f"{disk}:/many", COLUMNS="60")
    assert re.search(r"a  +.*file", shown) and max(map(len, shown.splitlines())) <= 60
    assert all(" " not in line for line in on_a_terminal("ls", "-1", f"{disk}:/many").splitlines())
