# SPDX-License-Identifier: GPL-2.0-only
"""Commands that change and search images, side by side with the GNU tools on the same tree of the
host.
"""

import os
import re
import signal
import subprocess
import tarfile
import time

import pytest

from support import host, images, program, trees
from support.checkers import FSCK
from support.json_output import document, end, exact, items, lines
from support.program import LOSSES, bad, good, run

# Attributes that an ext4 with blocks of 1 KiB can hold.
FULL = trees.Abilities(big=False, acls=False, xattr_size=200).for_user(host.IS_ROOT)
FAT = trees.Abilities(modes=False, owners=False, time_step=None, symlinks=False,
                      hardlinks=False, xattrs=False, acls=False, devices=False,
                      fifos=False, sockets=False, utf16_names=True, name_max=200, big=False)
ABILITIES = {"ext4": FULL, "xfs": FULL, "vfat": FAT}


def check(image, kind):
    host.run(*FSCK[kind], image)


class Twins:
    """The same tree on the host and in an image; commands are done to both."""

    def __init__(self, work, kind):
        self.work, self.kind = work, kind
        self.abilities = ABILITIES[kind]
        self.host = f"{work}/host"
        trees.build(self.host, self.abilities, "small")
        self.image = images.make(f"{work}/disk.img", kind)
        good("cp", "-a", f"{self.host}/.", f"{self.image}:/",
             notes=LOSSES if kind == "vfat" else ())

    def do(self, command, *words):
        """Runs the tool and ours with "@" standing for the tree; they must agree on whether it
        works.
        """
        theirs = host.run(command, *(word.replace("@", self.host) for word in words), ok=None)
        ours = run(command, *(word.replace("@", f"{self.image}:") for word in words))
        assert ours.code == theirs.returncode, f"{ours}\nGNU: {theirs.returncode} {theirs.stderr}"

    def seen(self):
        return images.shown(self.work, self.image, self.kind)

    def compare(self, **limits):
        check(self.image, self.kind)
        with self.seen() as directory:
            limits = {"time_step": None, **limits}
            found = trees.differences(trees.describe(self.host), trees.describe(directory),
                                      self.abilities.limited_to(**limits))
        assert not found, "\n".join(found)


# Commands that shall do the same as the tools of these names.
GENERAL = {
    "mkdir": ["mkdir @/new", "mkdir @/new", "mkdir @/none/x", "mkdir -p @/p/q/r @/p/q",
              "mkdir -p @/text/x", "mkdir @/a @/b/ @/text/x @/c"],
    "rmdir": ["mkdir -p @/e/f/g", "rmdir @/e/f", "rmdir -p @/many/none",
              "rmdir @/text", "rmdir @/many", "rmdir @/e/f/g/", "rmdir @/e/f @/e"],
    "rm": ["rm @/text", "rm @/text", "rm -f @/text", "rm @/many", "rm -d @/many",
           "rm -r @/many", "rm -rf @/deep @/none", "rm -r @/random/",
           "rm @/none @/sparse", "mkdir @/one", "rm -d @/one"],
    "mv": ["mv @/text @/renamed", "mv @/many @/deep", "mv @/deep @/deep/x",
           "mv @/none @/x", "mv @/random @/sparse", "mv -n @/sparse @/renamed",
           "mv @/renamed @/size1 @/deep/", "mv @/deep/text @/deep/renamed @/none",
           "mkdir @/many2", "mv @/deep/many @/many2/",
           "mv @/many2 @/size0", "mv @/size0 @/many2", "mv @/size0 @/size0"],
    "truncate": ["truncate -s 5000 @/text", "truncate -s +1M @/random",
                 "truncate -s -4000 @/size4097", "truncate -s 2KB @/size1",
                 "truncate -s %4K @/text", "truncate -s /4K @/random",
                 "truncate -s 0 @/sparse @/new", "truncate -c -s 5 @/none",
                 "truncate -s -5 @/size1", "truncate -s 1 @/many"],
    "touch": ["touch @/text", "touch @/new @/many/new", "touch -c @/none",
              "touch @/none/x", "touch @/many"],
}
WITH_LINKS = {
    "ln": ["ln @/text @/hard", "ln @/text @/hard", "ln -f @/size1 @/hard",
           "ln -s to @/soft", "ln -s to @/soft", "ln -sf other @/soft", "ln @/many @/x",
           "ln @/none @/x", "ln -s deep @/dir", "ln -s x @/dir", "ln -sfn y @/dir",
           "ln -s /a /b @/many", "ln -sf x @/many/a", "ln @/link @/link2",
           "ln @/text @/random @/many", "ln -s x @/empty/", "ln -f @/text @/hard1"],
    "rm": ["rm -r @/link", "ln -s many @/m", "rm @/m", "rm -r @/empty @/dangling @/fifo"],
    "mv": ["mv @/hard1 @/text", "mv @/link @/many", "mv @/dangling @/text", "mv @/longlink @/link"],
    "chmod": ["chmod 600 @/text @/many", "chmod u+x,go-w @/size0", "chmod -R u=rwX,g=rX,o= @/deep",
              "chmod a+s @/random", "chmod 755 @/empty",
              "chmod 0 @/none @/size1", "chmod g+s @/many", "chmod 700 @/many",
              "chmod 00700 @/many", "chmod =r @/size4095", "chmod +t,o+w @/many",
              "chmod 640 @/link", "chmod 600 @/dangling", "chmod -R go=u @/deep @/many",
              "chmod -R u-s,g-s,-t @/empty"],
    "mkdir -m": ["mkdir -m 700 @/a", "mkdir -m u=rwx,go=,+t @/b", "mkdir -p -m 2711 @/c/d",
                 "chmod g+s @/c", "mkdir -m 750 @/c/e", "mkdir @/c/f"],
}
# Slashes at the end of what there is not, of files, directories, links, and links that lead
# nowhere.
SLASHES = {
    "mv": ["mv @/text @/new/", "mv @/many @/moved/", "mv @/text/ @/new",
           "mv @/text @/size1/", "mv @/many/ @/text/", "mv -n @/text @/new/", "mv @/dir/ @/x",
           "mv @/text @/dir/", "mv @/size1 @/nowhere/", "mv @/deep @/nowhere/",
           "mv @/size1 @/none/x", "mv @/size1 @/none/x/"],
    "ln": ["ln @/text @/new/", "ln -s x @/new/", "ln @/text/ @/new", "ln -s x @/text/",
           "ln -sf x @/new/", "ln -s x @/many/", "ln -s x @/dir/",
           "ln -s x @/nowhere/", "ln -sfn x @/nowhere/", "ln @/text @/none/x", "ln -sn y @/dir/"],
    "mkdir": ["mkdir @/new/", "mkdir @/text/", "mkdir @/nowhere/", "mkdir -p @/new2/a/",
              "mkdir -p @/text/", "mkdir -p @/dir/b/", "mkdir @/dir/"],
    "touch": ["touch @/new/", "touch -c @/new/", "touch @/text/", "touch @/many/",
              "touch @/dir/", "touch @/nowhere/", "touch -c @/text/", "touch @/none/x"],
    "truncate": ["truncate -s 0 @/new/", "truncate -s 0 @/text/", "truncate -s 0 @/many/",
                 "truncate -s 0 @/nowhere/", "truncate -c -s 0 @/new/"],
    "rm": ["rm @/text/", "rm -f @/text/", "rm @/new/", "rm -f @/new/",
           "rm @/many/", "rm @/dir/", "rm -r @/dir/", "rm @/nowhere/", "rm -r @/many/"],
    "rmdir": ["rmdir @/text/", "rmdir @/new/", "rmdir @/dir/", "rmdir @/nowhere/",
              "mkdir @/e", "rmdir @/e/", "rmdir @/empty/"],
    "cp": ["cp @/text @/new/", "cp @/text @/size1/", "cp @/text @/dir/", "cp @/text/ @/new",
           "cp @/text @/nowhere/", "cp -r @/many @/copy/", "cp -r @/many/ @/copy2/",
           "cp -r @/many @/text/", "cp @/text @/size1 @/new/", "cp -r @/text @/new/",
           "cp -r @/link @/new/", "cp @/text @/none/x", "cp @/text @/none/x/"],
}
OWNERS = {
    "chown": ["chown 5 @/text", "chown 6:7 @/random @/many", "chown :8 @/size0",
              "chown -R 9:10 @/deep", "chown -h 11 @/link", "chown 12 @/link",
              "chown 1 @/dangling", "chown -h 1 @/dangling", "chown 1 @/none @/size4096",
              "chown -R --from=0 3 @/many", "chown --from=:3 4 @/size1",
              "chown 7 @/size4095", "chown -R 77:78 @/"],
}


def cases(groups):
    return [pytest.param(commands, id=name) for name, commands in groups.items()]


def do_all(twins, commands):
    for command in commands:
        twins.do(*command.split())
    twins.compare()


@pytest.mark.parametrize("commands",
                         cases(GENERAL | {"links and modes": sum(WITH_LINKS.values(), [])}))
@pytest.mark.needs_root
def test_as_gnu_on_ext4(work, commands):
    do_all(Twins(work, "ext4"), commands)


@pytest.mark.parametrize("commands", cases(WITH_LINKS | OWNERS))
@pytest.mark.needs_root
def test_links_modes_and_owners(work, commands):
    do_all(Twins(work, "ext4"), commands)


@pytest.mark.parametrize("commands", cases(SLASHES))
@pytest.mark.needs_root
def test_slashes_as_gnu(work, commands):
    twins = Twins(work, "ext4")
    for command in ("ln -s many @/dir", "ln -s none/at/all @/nowhere"):
        twins.do(*command.split())
    do_all(twins, commands)


@pytest.mark.parametrize("command",
                         ["cp {image}:/text {work}/new/", "cp {work}/host/text {image}:/new/"])
def test_a_copy_has_no_slash_at_its_end(work, command):
    twins = Twins(work, "vfat")
    bad(*command.format(image=twins.image, work=work).split(), mentions=["new/: Not a directory"])
    assert not os.path.exists(f"{work}/new")
    bad("ls", f"{twins.image}:/new")
    bad("cp", f"{work}/host/text", f"{twins.image}:/none/x", mentions=["No such file"])


@pytest.mark.needs_root
def test_as_gnu_on_xfs(work):
    twins = Twins(work, "xfs")
    for commands in (WITH_LINKS["ln"], WITH_LINKS["chmod"], OWNERS["chown"], GENERAL["mv"]):
        do_all(twins, commands)


def test_as_gnu_on_vfat(work):
    twins = Twins(work, "vfat")
    do_all(twins,
           [command for name in ("mkdir", "rmdir", "mv", "truncate") for command in GENERAL[name]]
           + ["rm -r @/deep", "rm @/with"])


@pytest.mark.needs_root
def test_touch_sets_times(work):
    twins = Twins(work, "ext4")
    for words in (("-d", "2001-09-09 01:46:40.123456789 UTC", "@/text"),
                  ("-d", "@-5", "@/random"), ("-m", "-d", "2020-02-29", "@/many"),
                  ("-a", "-d", "1999-12-31T23:59:59Z", "@/size0"), ("-r", "@/text", "@/size1"),
                  ("-h", "-d", "@7", "@/link"), ("-d", "@9", "@/longlink"),
                  ("-d", "2031-05-06 07:08 +0130", "@/deep")):
        theirs = [word.replace("@/", f"{twins.host}/") for word in words]
        ours = [word.replace("@/", f"{twins.image}:/") for word in words]
        assert (run("touch", *ours).code
                == host.run("touch", *theirs, TZ="UTC", ok=(0, 1)).returncode)
    with twins.seen() as directory:
        for name in ("text", "random", "many", "size0", "size1", "link", "deep"):
            mine, other = os.lstat(f"{directory}/{name}"), os.lstat(f"{twins.host}/{name}")
            assert mine.st_mtime_ns == other.st_mtime_ns, name
            if name in ("text", "size0", "size1"):
                assert mine.st_atime_ns == other.st_atime_ns, name
    twins.compare()
    bad("touch", "-d", "next week", f"{twins.image}:/text", code=2, mentions=["2026-11-21"])


@pytest.mark.parametrize("text", ("2026-07-01T12:00[Europe/Berlin]", "2026-07-01UTCUTC",
                                  "2026-07-01T12:00+02:00[America/New_York]",
                                  "2026-07-01 12:00 +02:00 UTC", "@5x"))
def test_no_part_of_a_time_is_ignored(work, text):
    image = images.make(f"{work}/x.img", "ext4")
    bad("touch", "-d", text, f"{image}:/", code=2, mentions=[text])
    bad("tar-out", "--mtime", text, f"{image}:/", code=2, mentions=[text])


@pytest.mark.needs("mkntfs")
def test_times_before_1970_on_ntfs(work):
    """Linux's ntfs3 reports their fractions as negative nanoseconds."""
    image = images.make(f"{work}/n.img", "ntfs")
    with open(f"{work}/file", "w", encoding="ascii"):
        pass
    os.utime(f"{work}/file", ns=(0, -1_250_000_000))
    good("cp", "-a", f"{work}/file", f"{image}:/file")
    shown, = items(good("ls", "--json", f"{image}:/file"))
    assert shown["modified"] == -1_250_000_000
    assert "23:59:58.75" in good("stat", f"{image}:/file").out
    assert not good("cp", "-a", f"{image}:/file", f"{work}/again").err
    assert os.stat(f"{work}/again").st_mtime_ns == -1_250_000_000
    good("tar-out", f"{image}:/", "-f", f"{work}/x.tar")
    with tarfile.open(f"{work}/x.tar") as archive:
        assert archive.getmember("./file").mtime == -1.25


@pytest.mark.parametrize("kind, time", (("ntfs", "@1000000000000"), ("udf", "@2100000000000")))
def test_times_that_a_driver_only_seems_to_store(work, kind, time):
    """Until the inode is read again, these drivers report the time that was asked for."""
    image = f"{work}/x.img"
    good("mkfs", kind, image, "--size", "64M")
    good("touch", f"{image}:/file")
    bad("touch", "-d", time, f"{image}:/file", mentions=("cannot hold the time",))


# ---- names of users: those of the image ----


@pytest.fixture
def accounts(work):
    """An image with users of its own: ann, and root under another number."""
    os.makedirs(f"{work}/tree/etc")
    for name, text in (("passwd", "root:x:77:88::/:/bin/sh\nann:x:1234:5678::/home/ann:\nbroken\n"),
                       ("group", "staff:x:4321:ann\n")):
        with open(f"{work}/tree/etc/{name}", "w", encoding="ascii") as stream:
            stream.write(text)
    return images.make_ext4_of(f"{work}/disk.img", f"{work}/tree")


def owner(image, path):
    shown, = items(good("stat", "--json", f"{image}:{path}"))
    return shown["uid"], shown["gid"]


def test_names_of_the_image(accounts):
    good("touch", f"{accounts}:/a")
    for text, expected in (("ann", (1234, 0)), ("root:staff", (77, 4321)),
                           ("ann:", (1234, 5678)), (":9", (1234, 9)), ("+5:staff", (5, 4321))):
        good("chown", text, f"{accounts}:/a")
        assert owner(accounts, "/a") == expected, text
    for text in ("daemon", "ann:wheel", "5:", "4294967295", "-- -1"):
        bad("chown", *text.split(), f"{accounts}:/a")
    good("chown", "-R", "--from", ":staff", "ann", f"{accounts}:/")
    assert owner(accounts, "/a") == (1234, 4321) and owner(accounts, "/etc")[0] != 1234
    assert (good("find", f"{accounts}:/", "-user", "ann", "-group", "staff").out
            == f"{accounts}:/a\n")
    bad("find", f"{accounts}:/", "-user", "daemon", mentions=["daemon", "/etc/passwd"])
    check(accounts, "ext4")


def test_an_evil_passwd(work, accounts):
    """A FIFO is not waited for, and numbers need no file."""
    os.remove(f"{work}/tree/etc/passwd")
    os.mkfifo(f"{work}/tree/etc/passwd")
    disk = images.make_ext4_of(f"{work}/fifo.img", f"{work}/tree")
    bad("chown", "ann", f"{disk}:/etc", mentions=["regular"], timeout=20)
    good("chown", "1:2", f"{disk}:/etc")


# ---- mv between images ----


@pytest.mark.needs_root
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_mv_to_another_image(work, kind):
    twins = Twins(work, "ext4")
    other = images.make(f"{work}/other.img", kind)
    good("mkdir", f"{other}:/old", f"{other}:/full", f"{other}:/full/text")
    good("cp", f"{program.REPOSITORY}/Makefile", f"{other}:/size1")
    names = ["text", "hard1", "many", "deep", "empty", "link", "fifo",
             "null", "sparse", "size1", "attributed"]
    good("mv", *(f"{twins.image}:/{name}" for name in names[1:]), f"{other}:/")
    bad("mv", f"{twins.image}:/text", f"{other}:/full", mentions=["Is a directory"])
    good("mv", f"{twins.image}:/text", f"{other}:/old/new")
    assert not set(names) & set(good("ls", "-a", f"{twins.image}:/").out.split("\n"))
    assert good("ls", "-a", f"{other}:/").out.count(".outboard") == 0
    check(twins.image, "ext4")
    check(other, kind)
    good("cp", "-a", f"{other}:/", f"{work}/back")
    found, expected = trees.describe(f"{work}/back"), trees.describe(twins.host)
    found["text"] = found.pop("old/new")
    expected = {path: entry for path, entry in expected.items() if path.split("/")[0] in names}
    found = {path: entry for path, entry in found.items() if path in expected}
    for entry in [*found.values(), *expected.values()]:
        entry.group = ""
    assert not trees.differences(expected, found, FULL)


def test_mv_changes_the_case_of_a_name(work):
    fat = images.make(f"{work}/fat.img", "vfat")
    good("mkdir", f"{fat}:/Folder")
    good("touch", f"{fat}:/Folder/Name")
    good("mv", f"{fat}:/Folder/Name", f"{fat}:/Folder/name")
    assert good("ls", f"{fat}:/Folder").out == "name\n"
    check(fat, "vfat")


@pytest.mark.needs_root
@pytest.mark.needs("btrfs")
def test_mv_between_subvolumes(work):
    host.require_mount("btrfs")
    image = images.make(f"{work}/disk.img", "btrfs")
    with host.loop_mount(image, "btrfs") as directory:
        host.run("btrfs", "subvolume", "create", f"{directory}/one")
        host.run("btrfs", "subvolume", "create", f"{directory}/two")
        os.makedirs(f"{directory}/one/folder/below")
    good("mv", f"{image}:/one/folder", f"{image}:/two/renamed")
    assert good("find", f"{image}:/", "-mindepth", "1").out.replace(f"{image}:", "").split() == [
        "/one", "/two", "/two/renamed", "/two/renamed/below"]
    assert good("find", f"{image}:/", "-xdev", "-mindepth",
                "1").out.replace(f"{image}:", "").split() == ["/one", "/two"]
    host.run("btrfs", "check", image)


@pytest.mark.needs_root
def test_mv_keeps_what_could_not_be_kept(work):
    twins = Twins(work, "ext4")
    fat = images.make(f"{work}/fat.img", "vfat")
    before = good("find", f"{twins.image}:/", "-ls").out
    bad("mv", f"{twins.image}:/link", f"{fat}:/", mentions=["link", "not permitted"])
    bad("mv", f"{twins.image}:/size4095", f"{fat}:/", mentions=["not kept", "rm -r"])
    assert good("find", f"{fat}:/").out == f"{fat}:/\n{fat}:/size4095\n"
    assert good("find", f"{twins.image}:/", "-ls").out == before
    check(fat, "vfat")


# ---- never on the host ----


def test_a_link_to_a_directory_is_not_gone_through(work):
    """GNU rm empties what a link with a slash leads to, before it finds that it cannot remove it.
    """
    os.makedirs(f"{work}/tree/kept/below")
    os.symlink("kept", f"{work}/tree/link")
    image = images.make_ext4_of(f"{work}/disk.img", f"{work}/tree")
    bad("rm", "-rf", f"{image}:/kept/..", mentions=["removed"])
    bad("rm", "-r", f"{image}:/link/", mentions=["Not a directory"])
    good("chown", "-R", "5:6", f"{image}:/link")
    good("chmod", "-R", "700", f"{image}:/kept")
    assert owner(image, "/link") == (5, 6) and owner(image, "/kept/below") != (5, 6)
    good("rm", "-r", f"{image}:/link")
    assert "below" in good("ls", f"{image}:/kept").out
    check(image, "ext4")


@pytest.mark.parametrize("words",
                         ["rm -rf @", "rmdir @", "mkdir @/x", "chmod 0 @/file",
                          "chown 1 @/file", "touch @/new", "truncate -s 0 @/file", "ln @/file @/x",
                          "ln -s x @/x", "mv @/file IMAGE:/", "mv IMAGE:/lost+found @",
                          "find @ -delete", "du @", "tree @", "sync @",
                          "touch -r @/file IMAGE:/"])
def test_host_paths_are_refused(work, words):
    os.mkdir(f"{work}/precious")
    with open(f"{work}/precious/file", "wb") as stream:
        stream.write(b"content")
    before = trees.describe(work)
    image = images.make(f"{work}/disk.img", "ext4") if "IMAGE" in words else ""
    bad(*words.replace("@", f"{work}/precious").replace("IMAGE", image).split(),
        code=2, mentions=["precious"])
    if image:
        os.remove(image)
    assert not trees.differences(before, trees.describe(work), trees.Abilities(time_step=None))


# ---- find ----

EXPRESSIONS = [
    "", "-name size*", "-name [st]*[0-9]", "-name *o* -type f", "-iname TEXT -o -iname SIZE?",
    "! -name *e*", "-type f,l", "-type d -empty", "-empty",
    "-type f -size +1", "-type f -size -2k", "-type f -size 1c", "-type f -size 9b",
    "-size +1M", "-maxdepth 1", "-mindepth 2 -maxdepth 3 -type d", "-maxdepth 0",
    "-type f -links +1", "-type f -links 3", "-type f -links -2", "-perm 644",
    "-perm -4000", "-perm /6000", "-perm /u+s,g+s", "-perm -u=rw", "-perm 0",
    "-user 1000", "-group 1001", "-uid", "-name many -prune -o -type f -print",
    "( -name many -o -name deep ) -prune -o -print",
    "-type f -a ( -name size* -o -name text ) -a ! -size -8",
    "-type p -o -type s -o -type c -o -type b", "-newer @/text", "! -newer @/text -type f",
    "-mtime -1", "-mtime +1", "-mtime +100000", "-false -o -name text",
    "-name text -print -print", "-name many -o -print -false -o -name x", "-depth",
    "-path @/many/*", "-path @/deep/*leaf", "-path @/*/*/*", "-ipath @/MANY/*9",
    "-name größ?", "-name l\\ink", "-name [[:digit:]]*", "( -name text",
    "-name", "-o -name x", "-name text )", "-type q", "-perm 9", "-mindepth 1 -xdev -true",
    "-not -not -name text", "-type f -name *9 -o ! ( -type f -o -type d )",
]


def names(shown, top):
    """The paths below the top, which has a name only on the host."""
    return sorted(line.removeprefix(top) for line in shown.splitlines()
                  if line.removeprefix(top) not in ("", "/"))


@pytest.mark.needs_root
def test_find_as_gnu(work):
    twins = Twins(work, "ext4")
    with twins.seen() as directory:
        theirs = {}
        for expression in EXPRESSIONS:
            words = [word.replace("@", directory) for word in expression.split()]
            done = host.run("find", directory, *words, ok=None)
            theirs[expression] = (done.returncode, names(done.stdout, directory))
    for expression, (code, lines) in theirs.items():
        words = [word.replace("@", f"{twins.image}:" if "newer" in expression else "")
                 for word in expression.split()]
        ours = run("find", f"{twins.image}:/", *words)
        if code != 0:
            assert ours.code == 2, f"{expression}: {ours}"
            continue
        assert ours.code == 0, str(ours)
        assert names(ours.out, f"{twins.image}:") == lines, expression


@pytest.mark.needs_root
def test_find_printf_as_gnu(work):
    twins = Twins(work, "ext4")
    formats = ("%P|%f|%y|%m|%M|%n|%U|%G|%d|%i|%k|%b\\n", "%10s|%-10s|%05d|%06m|%08s|%P\\n",
               "%T@ %TY-%Tm-%Td %TH:%TM:%TS %T+ %TF %TT %P\\n",
               "%A@ %C@\\t%P\\n", "%t|%P\\n", "%a|%c|%P\\n", "%l %P\\n", "\\101%%\\\\%P\\0",
               "%P\\c never\\n")
    with twins.seen() as directory:
        theirs = {text: host.run("find", directory, "-mindepth", 1, "-not", "-type",
                                 "d", "-printf", text, TZ="UTC").stdout for text in formats}
    for text, expected in theirs.items():
        shown = good("find", f"{twins.image}:/", "-mindepth", "1", "-not",
                     "-type", "d", "-printf", text).out
        assert sorted(re.split(r"[\n\0]", shown)) == sorted(re.split(r"[\n\0]", expected)), text
    lines = good("find", f"{twins.image}:/many", "-maxdepth", "0", "-printf", "%p %h %H\\n").out
    assert lines == f"{twins.image}:/many {twins.image}: {twins.image}:/many\n"
    for wrong in ("%q", "%", "%Tq", "\\q"):
        bad("find", f"{twins.image}:/", "-printf", wrong, code=2, mentions=["-printf"])


@pytest.mark.needs_root
def test_find_delete(work):
    twins = Twins(work, "ext4")
    twins.do("find", "@/many", "-name", "*5", "-delete")
    twins.do("find", "@/deep", "-delete")
    twins.do("find", "@/", "-maxdepth", "1", "-type", "f", "!", "-name", "s*", "-delete")
    twins.do("find", "@/empty", "-type", "d", "-delete")
    twins.compare()
    good("find", f"{twins.image}:/", "-mindepth", "1", "-delete")
    assert good("find", f"{twins.image}:/").out == f"{twins.image}:/\n"
    check(twins.image, "ext4")


def test_find_order_and_output(work):
    os.makedirs(f"{work}/tree/a/b")
    odd = os.fsencode(f"{work}/tree/a/b/") + b"odd\xff\n\x1b[2J"
    with open(odd, "wb"):
        pass
    image = images.make_ext4_of(f"{work}/disk.img", f"{work}/tree")
    prefix = os.fsencode(image) + b":/a"
    assert (good("find", f"{image}:/a").raw == prefix + b"\n" + prefix
            + b"/b\n" + prefix + b"/b/odd\xff\n\x1b[2J\n")
    assert good("find", f"{image}:/a/", "-depth", "-print0").raw.split(b"\0")[-2] == prefix + b"/"
    shown = items(good("find", "--json", f"{image}:/a"))
    assert [entry["type"] for entry in shown] == ["directory", "directory", "file"]
    assert exact(shown[2], "path") == prefix + b"/b/odd\xff\n\x1b[2J"
    line = good("find", f"{image}:/a/b", "-maxdepth", "0", "-ls").out.split()
    assert line[2].startswith("drwx") and line[-1] == f"{image}:/a/b"
    assert good("find", f"{image}:/", "-name", "/").out == f"{image}:/\n"
    assert good("find", f"{image}:/a/b/", "-name", "b").out == f"{image}:/a/b/\n"
    bad("find", f"{image}:/", "-exec", "rm", code=2, mentions=["-exec", "-print0", "-newer"])
    bad("find", "-name", "x", code=2, mentions=["IMAGE:/PATH"])


# ---- du, df, tree, ls --color: as the tools on a loop mount of the image ----


@pytest.mark.needs_root
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_du_as_gnu(work, kind):
    host.require_mount(kind)
    twins = Twins(work, kind)
    with twins.seen() as directory:
        for words in ("", "-s", "-a", "-d 1", "-h", "-a -h -d 2", "--apparent-size",
                      "-s --apparent-size -h", "-b", "-c", "-s -c -b", "-c -h"):
            theirs = host.run("du", *words.split(), directory).stdout.replace(
                directory, f"{twins.image}:")
            ours = good("du", *words.split(), f"{twins.image}:/").out.replace(
                f"{twins.image}:/\n", f"{twins.image}:\n")
            assert sorted(ours.splitlines()) == sorted(theirs.splitlines()), words
        total = int(host.run("du", "-s", "-B1", directory).stdout.split()[0])
    shown = items(good("du", "-s", "--json", f"{twins.image}:/"))
    assert shown == [{"path": f"{twins.image}:/", "bytes": total}]
    assert end(good("du", "-s", "-c", "--json", f"{twins.image}:/"))["bytes"] == total


@pytest.mark.needs_root
def test_du_counts_once(work):
    twins = Twins(work, "ext4")
    with twins.seen() as directory:
        for words in ("@/deep @/many", "@/many @", "@ @/many", "-s @ @/many @/text",
                      "-a @/text @/text @/many", "-s @/hard1 @/text @/many @/many"):
            theirs = host.run("du", *words.replace("@", directory).split()).stdout.replace(
                directory, f"{twins.image}:")
            ours = good("du", *(word + "/" * (word == f"{twins.image}:")
                                for word in words.replace("@", f"{twins.image}:").split())).out
            ours = ours.replace(f"{twins.image}:/\n", f"{twins.image}:\n")
            assert sorted(ours.splitlines()) == sorted(theirs.splitlines()), words


@pytest.mark.needs_root
def test_df_as_gnu(work):
    twins = Twins(work, "ext4")
    second = images.make(f"{work}/second.img", "xfs", 320)
    disk = images.partitioned(f"{work}/gpt.img",
                              "label: gpt\nstart=2048, size=131072\nstart=133120, size=655360\n",
                              {2048: twins.image, 133120: second}, 448)
    with twins.seen() as directory:
        expected = {words: host.run("df", *words, directory).stdout.splitlines()[1].split()[1:5]
                    for words in ((), ("-i",), ("-h",))}
    for words, numbers in expected.items():
        rows = [line.split() for line in good("df", *words, disk).out.splitlines()]
        assert [row[:2] for row in rows[1:]] == [[f"{disk}@1", "ext4"], [f"{disk}@2", "xfs"]]
        assert rows[1][2:] == numbers, words
        assert good("df", *words, f"{disk}@1").out.splitlines()[1].split() == rows[1]
    shown = document(good("df", "--json", twins.image, f"{disk}@2:/"))["filesystems"]
    assert [row["type"] for row in shown] == ["ext4", "xfs"]
    assert shown[0]["available"] // 1024 == int(expected[()][2])
    bad("df", f"{work}/none.img", mentions=["none.img"])


@pytest.mark.needs_root
@pytest.mark.needs("tree")
def test_tree_as_tree(work):
    twins = Twins(work, "ext4")
    good("mkdir", f"{twins.image}:/.hidden", f"{twins.image}:/.hidden/x")
    with twins.seen() as directory:
        for words in ("", "-a", "-d", "-L 2", "-a -d -L 1"):
            theirs = host.run("tree", "-n", "--noreport", "--charset=UTF-8",
                              "-N", *words.split(), directory).stdout.splitlines()
            ours = good("tree", *words.split(), f"{twins.image}:/").out.splitlines()
            assert ours[1:-2] == theirs[1:], words
            assert re.fullmatch(r"\d+ director(y|ies)(, \d+ files?)?", ours[-1])
    *shown, last = lines(good("tree", "--json", f"{twins.image}:/"))
    found = {entry["path"]: (entry["depth"], entry["type"]) for entry in shown[1:]}
    assert found[f"{twins.image}:/"] == (0, "directory")
    assert found[f"{twins.image}:/many"] == (1, "directory")
    assert found[f"{twins.image}:/deep/leaf"] == (2, "file")
    assert last["directories"] + last["files"] == len(found) - 1


def painted(text):
    """Names with the codes they are shown in."""
    found = {}
    for line in text.splitlines():
        codes, name = re.fullmatch(r"((?:\x1b\[[\d;]*m)*)(.*?)(?:\x1b\[0?m|\x1b\[K)*",
                                   line).groups()
        numbers = sorted(int(number or 0) for code in re.findall(r"\[([\d;]*)m", codes)
                         for number in code.split(";"))
        found[name] = [number for number in numbers if number]
    return found


@pytest.mark.needs_root
@pytest.mark.parametrize("colors", [
    None, "di=01;34:ln=36:*.txt=33:*1=35:ex=32:pi=40;33:so=01;35:cd=33:bd=34:su=37;41:sg=30;43:"
    "tw=30;42:st=37;44"])
def test_ls_colors_as_gnu(work, colors):
    twins = Twins(work, "ext4")
    good("rm", f"{twins.image}:/dangling", f"{twins.image}:/longlink")
    variables = {"LS_COLORS": colors} if colors else {}
    with twins.seen() as directory:
        theirs = host.run("ls", "-1", "--color=always", directory, TERM="xterm", **variables).stdout
    # The older of two defaults for archives does not concern these names.
    assert painted(good("ls", "--color", f"{twins.image}:/", **variables).out) == painted(theirs)
    for words in ((), ("--color=auto",), ("--color=never",)):
        assert "\x1b" not in good("ls", *words, f"{twins.image}:/", LS_COLORS="di=31").out


def branches(text):
    """Codes of the names that a tree of one level shows."""
    found = {}
    for line in text.splitlines():
        branch = re.match(r"[\u251c\u2514]\u2500\u2500[ "
                          r"\u00a0]((?:\x1b\[[\d;]*m)*)([^\x1b]*?)(?:\x1b\[0?m| -> |$)", line)
        if branch:
            numbers = (int(number or 0) for code in re.findall(r"\[([\d;]*)m", branch[1])
                       for number in code.split(";"))
            found[branch[2]] = sorted(number for number in numbers if number)
    return found


@pytest.mark.needs_root
@pytest.mark.needs("tree")
def test_tree_colors_as_tree(work):
    twins = Twins(work, "ext4")
    good("rm", f"{twins.image}:/dangling", f"{twins.image}:/longlink")
    variables = {
        "LS_COLORS": "di=01;34:ln=36:*1=35:ex=32:pi=40;33:so=01;35:cd=33:bd=34:su=37;41:sg=30;43:"
        "tw=30;42:st=37;44"}
    with twins.seen() as directory:
        theirs = host.run("tree", "-C", "-L", "1", "--noreport", "--charset=UTF-8",
                          "-N", directory, TERM="xterm", **variables).stdout
    ours = good("tree", "-L", "1", "--color", f"{twins.image}:/", **variables).out
    assert branches(ours) == branches(theirs) != {}
    assert "\x1b" not in good("tree", f"{twins.image}:/", **variables).out


# ---- broken and deep trees ----


@pytest.fixture
def broken(work):
    """A directory that cannot be read, and one that holds itself under a second name."""
    os.makedirs(f"{work}/tree/bad/lost")
    os.makedirs(f"{work}/tree/loop/below")
    os.makedirs(f"{work}/tree/good/below")
    for name in ("good/file", "loop/below/file"):
        with open(f"{work}/tree/{name}", "wb") as stream:
            stream.write(b"content")
    image = images.make_ext4_of(f"{work}/disk.img", f"{work}/tree")
    host.run("debugfs", "-w", "-R", "link /loop /loop/below/again", image)
    host.run("debugfs", "-w", "-R", "set_inode_field /bad block[0] 999999", image)
    return image


@pytest.mark.parametrize("words", ["find", "du -a", "tree -a", "chmod -R 700", "chown -R 5:6"])
def test_a_broken_tree(broken, words):
    result = bad(*words.split(), f"{broken}:/", mentions=["bad"], timeout=60)
    assert "loop" in result.err and result.err.count("cannot") <= 4, str(result)
    if not words.startswith("ch"):
        assert "below" in result.out and "file" in result.out
    if words.startswith("chown"):
        assert owner(broken, "/good/file") == (5, 6) == owner(broken, "/loop/below/file")


def test_rm_of_a_broken_tree(broken):
    result = run("rm", "-r", f"{broken}:/loop", f"{broken}:/bad", f"{broken}:/good", timeout=60)
    assert result.code == 1 and "good" not in result.err, str(result)
    assert "good" not in run("ls", f"{broken}:/").out


def make_deep(directory, levels):
    """Directories in each other, too deep for a path."""
    here = os.open(directory, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


# Both are deeper than a path can be long.
@pytest.mark.parametrize("depth", [2_500, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_deep_tree(work, depth):
    os.mkdir(f"{work}/top")
    make_deep(f"{work}/top", depth)
    image = images.make(f"{work}/disk.img", "ext4", 256)
    good("cp", "-a", f"{work}/top", f"{image}:/")
    host.run("rm", "-r", f"{work}/top")
    # And that of the image.
    assert good("find", f"{image}:/top", "-type", "d", "-links", "2").raw.count(b"/d") == depth + 1
    good("chmod", "-R", "700", f"{image}:/top")
    good("chown", "-R", "5:6", f"{image}:/top")
    assert good("find", f"{image}:/top", "-maxdepth", str(depth - 1), "-user",
                "5", "-perm", "700").raw.count(b"\n") == depth
    assert good("du", "-s", f"{image}:/top").out
    assert good("tree", "-L", "3", f"{image}:/top").out.splitlines()[-1] == "3 directories, 0 files"
    good("mv", f"{image}:/top", f"{image}:/moved")
    good("rm", "-r", f"{image}:/moved")
    assert good("ls", f"{image}:/").out == "lost+found\n"
    check(image, "ext4")


def test_many_files(work):
    """Each of the walks goes through a directory of 20,000 files and 200 directories."""
    os.makedirs(f"{work}/tree/flat")
    for number in range(20_000):
        with open(f"{work}/tree/flat/{number}", "wb"):
            pass
    for number in range(200):
        os.mkdir(f"{work}/tree/flat/d{number}")
    image = images.make(f"{work}/disk.img", "ext4", 256, "-N", "40000")
    good("cp", "-a", f"{work}/tree/.", f"{image}:/")
    good("chown", "-R", "3:4", f"{image}:/flat")
    assert good("find", f"{image}:/flat", "-user", "3").out.count("\n") == 20_201
    good("find", f"{image}:/flat", "-name", "*7", "-type", "f", "-delete")
    assert good("find", f"{image}:/flat", "-type", "f").out.count("\n") == 18_000
    good("rm", "-r", f"{image}:/flat")
    check(image, "ext4")


def test_an_interrupted_rm(work):
    """Stops, says so, and leaves a file system that is well."""
    os.mkdir(f"{work}/tree")
    for number in range(30_000):
        with open(f"{work}/tree/{number}", "wb"):
            pass
    image = images.make(f"{work}/disk.img", "ext4", 256, "-N", "60000")
    for delay in (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8):
        good("cp", "-a", f"{work}/tree", f"{image}:/")
        with subprocess.Popen(program.command("rm", "-r", f"{image}:/tree"),
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as running:
            time.sleep(delay)
            running.send_signal(signal.SIGINT)
            _, told = running.communicate(timeout=60)
        check(image, "ext4")
        good("rm", "-rf", f"{image}:/tree")
        if running.returncode == 130:
            assert "interrupted" in told
            break
    else:
        pytest.fail("no signal came while files were removed")
    check(image, "ext4")


def test_sync_replays_the_journal(work):
    image = images.make(f"{work}/disk.img", "ext4")
    good("sync", f"{image}:/")
    bad("sync", "--ro", f"{image}:/", mentions=["--ro"])
    bad("sync", image, code=2, mentions=[f"as in {image}:/"])
    bad("sync", "/etc", code=2, mentions=["as in disk.img:/etc"])
    check(image, "ext4")


def trace_of(work, calls, *words, **variables):
    """The lines of strace about some system calls of a run of the program."""
    log = f"{work}/trace"
    if (not host.have("strace")
        or host.run("strace", "-o", "/dev/null", "true", ok=None).returncode != 0):
        pytest.skip("strace is missing or may not trace")
    good(*words, prefix=("strace", "-f", "-qq", "-y", "-o", log, "-e", f"trace={calls}"),
         **variables)
    with open(log, encoding="utf-8", errors="replace") as lines:
        return list(lines)


def traced(work, *words):
    """The writes to images and the flushes of them in a run of the program, as (call, file), and
    what it writes itself.

    Without writes that are on stable storage when they return: those need no flush.
    """
    lines = trace_of(work, "pwrite64,pwritev,pwritev2,fdatasync,fsync,write", *words)
    found = [re.match(r"\d+ +(\w+)\((\d+)<([^>]*)>", line)
             for line in lines if "RWF_DSYNC" not in line]
    calls = [("flush" if call[1].endswith("sync") else call[1],
              "output" if call[3].startswith("pipe:") else os.path.basename(call[3]))
             for call in found if call]
    return [("write", file) if call.startswith("pwrite") else (call, file) for call, file in calls]


def test_short_commands_ask_little_of_the_host(work):
    """One thread for disks; no file of huge pages for memory that stays small; and the kernel,
    which has written nothing, ends with the process.
    """
    image = images.make(f"{work}/disk.img", "ext4")
    variables = {"XDG_CACHE_HOME": f"{work}/cache"}
    good("ls", f"{image}:/", **variables)
    lines = trace_of(work, "clone,prctl,close,mmap", "ls", f"{image}:/", **variables)
    # Pages of the snapshot that become the process's own, one by one.
    assert sum("MAP_SHARED|MAP_FIXED|" in line for line in lines) < 60
    assert sum('PR_SET_NAME, "outboard-block"' in line for line in lines) == 1
    assert not [line for line in lines if "CLONE_VFORK" in line]
    assert not [line for line in lines if "close(" in line and "/memfd:outboard-ram" in line]
    lines = trace_of(work, "clone,close", "mkdir", f"{image}:/new", **variables)
    assert [line for line in lines if "close(" in line and "/memfd:outboard-ram" in line]
    if host.run("unshare", "-U", "true", ok=None).returncode == 0:
        lines = trace_of(work, "clone", "du", f"{image}:/", **variables)
        assert [line for line in lines if "CLONE_VFORK" in line]


@pytest.mark.parametrize("place", ["{image}:/", ""])
def test_sync_flushes_the_disk(work, place):
    """Also where the file system itself does not ask for it. Without a place all is meant that is
    open.
    """
    image = images.make(f"{work}/disk.img", "vfat")
    with open(f"{work}/script", "w", encoding="ascii") as stream:
        stream.write(f"cp {images.write_noise(f'{work}/noise', 1)} {image}:/\n"
                     f"sync {place.format(image=image)}\nls {image}:/\n")
    calls = traced(work, "run-script", f"{work}/script")
    calls = [call for call, file in calls[:calls.index(("write", "output"))] if file == "disk.img"]
    assert "write" in calls and calls[-1] == "flush", calls


def test_mv_flushes_the_copy_first(work):
    source = images.make(f"{work}/source.img", "ext4")
    target = images.make(f"{work}/target.img", "vfat")
    images.write_noise(f"{work}/noise", 1)
    # As FAT can keep it, also for an ordinary user: what could not be kept would stay.
    os.chmod(f"{work}/noise", 0o755)
    os.utime(f"{work}/noise", (10**9, 10**9))
    good("cp", "-a", "--chown=0:0", f"{work}/noise", f"{source}:/")
    calls = traced(work, "mv", f"{source}:/noise", f"{target}:/")
    flush = calls.index(("flush", "target.img"))
    assert ("write", "target.img") in calls[:flush], calls
    assert ("write", "source.img") in calls[flush:], calls


@pytest.mark.parametrize("kind", ["ext4", "vfat"])
@pytest.mark.parametrize("words",
                         ["cp {work}/noise {image}:/", "tar-in -f {work}/noise.tar {image}:/"],
                         ids=lambda words: words.split()[0])
def test_what_is_copied_is_on_the_disk(work, kind, words):
    """V11: when the program has ended, the host was asked to flush the image after the last write
    to it.
    """
    image = images.make(f"{work}/disk.img", kind)
    images.write_noise(f"{work}/noise", 1)
    host.run("tar", "-C", work, "-cf", f"{work}/noise.tar", "noise")
    calls = [call for call, file in traced(work, *words.format(work=work, image=image).split())
             if file == "disk.img"]
    assert "write" in calls and calls[-1] == "flush", calls[-10:]
    assert good("cat", f"{image}:/noise").raw == read_bytes(f"{work}/noise")


def read_bytes(path):
    with open(path, "rb") as stream:
        return stream.read()
