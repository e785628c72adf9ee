# SPDX-License-Identifier: GPL-2.0-only
"""`--json` of every command: the lines fit docs/json-schema.json, and docs/json.md names them."""

import json
import os
import re

import pytest

from support import host, images, program
from support.json_output import document, end, exact, items, lines
from support.nobody import as_nobody
from support.program import LOSSES, bad, good, run

ODD = b"odd\xff\xc3\xa9"
# One second and one nanosecond and a half before 1970; and 2026.
OLD, NEW = -1_500_000_001, 1_800_000_000_123_456_789
GUIDE = os.path.join(program.REPOSITORY, "docs", "json.md")

# Each command with words that make it print something, "@" being an image and "%" a directory of
# the host. The exit code is 0 unless it is given.
CASES = {
    "info": "info @",
    "ls": "ls -R @:/",
    "stat": "stat @:/ @:/file",
    "cp": "cp -rv @:/ %/copied",
    "getfattr": "getfattr -R -d -m - @:/",
    "setfattr": "setfattr -n user.a -v b @:/file",
    "getfacl": "getfacl -R @:/",
    "setfacl": "setfacl -m u:7:r @:/file",
    "lsattr": "lsattr -R @:/",
    "chattr": "chattr +A @:/file",
    "diff": "diff @:/ @:/",
    "mkfs": "mkfs ext4 %/new.img --size 16M",
    "part": "part % list",
    "fsck": "fsck @",
    "resize": "resize @ --max",
    "fstrim": "fstrim @",
    "mv": "mv @:/file @:/moved",
    "rm": "rm @:/file",
    "mkdir": "mkdir @:/new",
    "rmdir": "rmdir @:/empty",
    "ln": "ln -s x @:/new",
    "chmod": "chmod 600 @:/file",
    "chown": "chown 1:2 @:/file",
    "touch": "touch @:/new",
    "truncate": "truncate -s 5 @:/file",
    "find": "find @:/",
    "tree": "tree -a @:/",
    "du": "du -a @:/",
    "df": "df @",
    "sync": "sync @:/",
    "tar-in": "tar-in @:/ %/in.tar",
    "tar-out": "tar-out @:/ -f %/out.tar",
    "mount": "mount @ %/none",
    "umount": "umount %",
    "lab": "lab REPOSITORY/docs/examples/labs/router.yaml",
    "hub": "hub %/none/hub %/socket",
    "components": "components",
    "ps": "ps --all",
    "stop": "stop none",
    "server": "server @",
    "status": "status unix:%/none",
    "halt": "halt unix:%/none",
    "certificates": "certificates %/keys",
}
# Command to the kind of its error.
FAILING = {"part": "not-a-file-system", "mount": "not-found", "umount": "not-found",
           "hub": "not-found", "stop": "not-found", "server": "usage", "status": "other",
           "halt": "other"}
# Standard output of these is data of another form.
REFUSING = {
    "cat": "cat @:/file",
    "edit": "edit @:/file",
    "run": "run @ -- true",
    "exec": "exec none -- true",
    "logs": "logs none",
    "dmesg": "dmesg unix:%/none",
    "run-script": "run-script %/script",
    "shell": "shell @",
    "completions": "completions bash",
}


def make_tree(directory):
    os.makedirs(f"{directory}/empty")
    os.makedirs(f"{directory}/etc")
    for name, text in (("file", "text\n"), ("etc/passwd", "ann:x:7:8::/:\n")):
        with open(f"{directory}/{name}", "w", encoding="ascii") as stream:
            stream.write(text)
    with open(os.fsencode(f"{directory}/") + ODD, "wb"):
        pass
    os.symlink(b"to\xfe", f"{directory}/link")
    os.mkfifo(f"{directory}/fifo", 0o640)
    os.setxattr(f"{directory}/file", "user.binary", b"\0\xff")
    os.setxattr(f"{directory}/file", "user.text", b"a\0")
    for name in ("file", "empty"):
        os.utime(f"{directory}/{name}", ns=(NEW, OLD))


@pytest.fixture(name="image")
def an_image(work):
    """An ext4 with odd names, old times, attributes, and an empty directory."""
    make_tree(f"{work}/tree")
    image = images.make(f"{work}/disk.img", "ext4")
    good("cp", "-a", f"{work}/tree/.", f"{image}:/")
    return image


def words_of(case, image, directory):
    return [word.replace("@", image).replace("%", directory).replace("REPOSITORY",
                                                                     program.REPOSITORY)
            for word in case.split()]


def with_json(words):
    return [words[0], "--json", *words[1:]]


def commands():
    listed = good("help").out.partition("Commands:\n")[2].partition("\n\n")[0]
    return [name for name in re.findall(r"^  ([a-z-]+)  ", listed, re.MULTILINE) if name != "help"]


def guide_table():
    """Each command of the guide's tables, with how it prints."""
    found = {}
    with open(GUIDE, encoding="utf-8") as stream:
        for names, way in re.findall(
                r"^\| (`.*?`) \| (lines|one object|refused)\b", stream.read(), re.MULTILINE):
            found.update(dict.fromkeys(re.findall(r"`([a-z-]+)[^`]*`", names), way))
    return found


# Words of a failing command, and the path of its error. "@" is an image, "%" a directory.
PATHS = (
    ("mkfs ext4 @", "@"), ("mkfs ext4 %/parts@7", "%/parts@7"),
    ("mkfs ext4 %/no/new --size 16M", "%/no"),
    ("mkfs ext4 %/new --size 16M --from %/no", "%/no"), ("mkfs ext4 %/new --size 1k", "%/new"),
    ("rm @:/etc", "@:/etc"), ("rm @:/file/x", "@:/file/x"), ("resize @ 1k", "@"),
    ("cp %/large %/parts@1", "%/large"), ("cp %/no %/parts@1", "%/no"),
    ("cp %/parts@1 %/no/new", "%/no/new"), ("cp %/parts@1 %/parts@1", "%/parts@1"),
    ("cp @:/file @:/etc @:/no", "@:/no"), ("cp -r @:/etc @:/file", "@:/file"),
    ("info %/parts@9", "%/parts"), ("part @ list", "@"), ("part %/parts add linux:1T", "%/parts"),
    ("tar-in @:/ @", "@"), ("tar-out @:/no -f %/new", "@:/no"), ("umount %/no", "%/no"),
    ("lab %/no", "%/no"),
)


@pytest.mark.parametrize("words,path", PATHS)
def test_errors_have_the_path_that_they_name(work, image, words, path):
    host.sparse_file(f"{work}/large", 32 << 20)
    images.partitioned(f"{work}/parts", "label: gpt\nstart=1MiB, size=8MiB\n", {}, 16)
    def meant(text):
        return re.sub(r"(?<![a-z])@", image, text).replace("%", work)
    first, *_ = end(run(*with_json(meant(words).split())))["errors"]
    assert first["path"] == meant(path), first


def test_every_command_is_known():
    assert sorted(commands()) == sorted([*CASES, *REFUSING]) == sorted(guide_table())


@pytest.mark.parametrize("command", CASES)
def test_each_command(work, image, command):
    host.run("tar", "-cf", f"{work}/in.tar", "-C", f"{work}/tree", "file")
    result = run(*with_json(words_of(CASES[command], image, work)))
    found = lines(result)
    assert found[0]["version"] == 1 and found[0]["command"] == command
    assert (result.code != 0) == (command in FAILING), str(result)
    kinds = [FAILING[command]] if command in FAILING else []
    assert [error["kind"] for error in found[-1]["errors"]] == kinds
    for error in found[-1]["errors"]:
        assert error["message"] in result.err
    assert (len(found) > 1) == (guide_table()[command] == "lines"), str(result)


@pytest.mark.parametrize("command", REFUSING)
def test_data_is_not_mixed_with_json(work, image, command):
    with open(f"{work}/script", "w", encoding="ascii") as stream:
        stream.write(f"rm {image}:/file\n")
    result = bad(*with_json(words_of(REFUSING[command], image, work)), code=2, mentions=["--json"])
    refused = document(result)
    assert refused["command"] == command and refused["errors"][0]["kind"] == "usage"
    assert guide_table()[command] == "refused"
    good("stat", f"{image}:/file")


def test_an_archive_on_standard_output(image):
    result = bad("tar-out", "--json", f"{image}:/", code=2, mentions=["-f"])
    assert document(result)["errors"][0]["kind"] == "usage"


# ---- names, times, owners ----


def test_names_are_exact(image):
    place = os.fsencode(image)
    expected = {b"/" + name for name in (b"", b"empty", b"etc", b"etc/passwd",
                                         b"fifo", b"file", b"link", b"lost+found", ODD)}
    for command in ("find", "tree", "du"):
        found = items(good(command, "--json", *["-a"] * (command != "find"), f"{image}:/"))
        assert {exact(item, "path") for item in found} == {place + b":" + path
                                                           for path in expected}, command
        odd, = [item for item in found if "path_base64" in item]
        assert odd["path"] == f"{image}:/odd\ufffd\xe9"
        assert exact(odd, "path") == place + b":/" + ODD
    links = [item for item in items(good("ls", "--json", f"{image}:/"))
             if item["type"] == "symlink"]
    assert [(exact(item, "path"), exact(item, "target")) for item in links] == [
        (place + b":/link", b"to\xfe")]


def test_an_exact_name_is_an_operand(image):
    odd, = [item for item in items(good("ls", "--json", f"{image}:/")) if "path_base64" in item]
    again, = items(run("stat", "--json", os.fsdecode(exact(odd, "path"))))
    assert exact(again, "path") == exact(odd, "path") and again["inode"] == odd["inode"]


def test_times_are_exact(image):
    for command in ("stat", "ls", "find"):
        item, = items(good(command, "--json", f"{image}:/file"))
        assert (item["accessed"], item["modified"]) == (NEW, OLD), command
    item, = items(good("stat", "--json", f"{image}:/file"))
    assert item["created"] > 10**18


@pytest.mark.needs("mkfs.btrfs")
def test_times_beyond_64_bits(work):
    image = images.make(f"{work}/disk.img", "btrfs")
    seconds = 253402300799
    good("touch", "-d", f"@{seconds}", f"{image}:/late")
    item, = items(good("stat", "--json", f"{image}:/late"))
    assert item["modified"] == seconds * 10**9 > 2**63


def test_owners_modes_and_sizes(image):
    good("chown", "7:9", f"{image}:/fifo")
    good("chmod", "4640", f"{image}:/fifo")
    item, = items(good("ls", "--json", f"{image}:/fifo"))
    assert (item["uid"], item["user"], item["gid"], item["mode"], item["type"]) == (
        7, "ann", 9, 0o4640, "fifo")
    assert "group" not in item and item["size"] == 0
    item, = items(good("ls", "-n", "--json", f"{image}:/fifo"))
    assert "user" not in item and "access_list" in item
    item, = items(good("stat", "--json", f"{image}:/file"))
    blocks = re.search(r"Blockcount: (\d+)", host.run("debugfs", "-R", "stat /file", image).stdout)
    assert item["size"] == 5 and item["allocated"] == int(blocks[1]) * 512 > 0


def test_numbers_of_devices(image):
    host.run("debugfs", "-w", "-R", "mknod disk b 7 3", image)
    for command in ("stat", "ls", "find"):
        item, = items(good(command, "--json", f"{image}:/disk"))
        assert item["type"] == "block" and item["device"] == {"major": 7, "minor": 3}, command
    item, = items(good("stat", "--json", f"{image}:/file"))
    assert "device" not in item


def test_an_empty_directory(image):
    for command in ("ls", "lsattr"):
        assert items(good(command, "--json", f"{image}:/empty")) == [], command
    assert len(items(good("find", "--json", f"{image}:/empty"))) == 1


# ---- what single commands know ----


def test_attributes_and_lists(image):
    good("setfacl", "-m", "u:7:rwx,m:r", f"{image}:/file")
    found, = items(good("getfattr", "--json", "-d", f"{image}:/file"))
    values = {attribute["name"]: exact(attribute, "value") for attribute in found["attributes"]}
    assert values == {"user.binary": b"\0\xff", "user.text": b"a\0"}
    names, = items(good("getfattr", "--json", f"{image}:/file"))
    assert [list(attribute) for attribute in names["attributes"]] == [["name"], ["name"]]
    listed = {os.path.basename(item["path"]): item["access_list"]
              for item in items(good("ls", "-l", "--json", f"{image}:/"))}
    assert listed["file"] is True and listed["fifo"] is False
    assert "access_list" not in items(good("ls", "--json", f"{image}:/file"))[0]
    found, = items(good("getfacl", "--json", f"{image}:/file"))
    assert {"tag": "user", "id": 7, "name": "ann", "permissions": "rwx",
            "effective": "r--"} in found["access"]
    assert found["default"] == []
    good("chattr", "+A", f"{image}:/file")
    found, = items(good("lsattr", "--json", f"{image}:/file"))
    assert found["flags"] & 0x80 and "No_Atime" in found["names"] and "A" in found["letters"]


def test_differences(work, image):
    tree = f"{work}/tree"
    with open(f"{tree}/file", "w", encoding="ascii") as stream:
        stream.write("teXt\n")
    os.setxattr(f"{tree}/file", "user.text", b"b")
    os.utime(f"{tree}/file", ns=(NEW, NEW))
    os.chmod(f"{tree}/empty", 0o700)
    os.remove(f"{tree}/link")
    os.symlink("other", f"{tree}/link")
    os.remove(f"{tree}/fifo")
    result = run("diff", "--json", "--times", "-x", "lost+found", "--ignore",
                 "owners", f"{image}:/", tree)
    assert result.code == 1 and end(result)["errors"] == []
    found = {(exact(item, "path"), item["what"]): item for item in items(result)}
    assert found[b"file", "contents"]["offset"] == 2
    assert (found[b"file", "modified"]["left"], found[b"file", "modified"]["right"]) == (OLD, NEW)
    assert exact(found[b"file", "xattr"], "left") == b"a\0"
    assert found[b"file", "xattr"]["right"] == "b"
    assert found[b"empty", "mode"]["right"] == 0o700
    assert exact(found[b"link", "target"], "left") == b"to\xfe"
    assert found[b"link", "target"]["right"] == "other"
    assert found[b"fifo", "missing"]["only_in"] == "left"


def test_copies(work, image):
    result = good("cp", "-rv", "--json", f"{image}:/.", f"{work}/copied")
    pairs = {exact(item, "source"): exact(item, "destination") for item in items(result)}
    copied = os.fsencode(f"{work}/copied")
    for source, copy in pairs.items():
        assert os.path.lexists(copy) and os.path.normpath(copy).startswith(copied), source
    assert any(path.endswith(ODD) for path in pairs)
    assert items(good("cp", "-r", "--json", f"{image}:/etc", f"{work}/quiet")) == []


def test_checks(image):
    found = document(good("fsck", "--json", image))["check"]
    assert (found["result"], found["type"], found["volume"]) == ("clean", "ext4", image)
    host.run("debugfs", "-w", "-R", "clri /file", image)
    result = run("fsck", "--json", image)
    found = document(result)
    assert result.code == 4, str(result)
    assert found["check"]["result"] == "errors", str(result)
    error, = found["errors"]
    assert error["kind"] == "damaged" and "-y" in error["message"], str(result)
    assert "file" in found["check"]["output"]


def test_disks(work, image):
    disk = images.partitioned(f"{work}/gpt.img", "label: gpt\nstart=2048, size=131072, name=one\n",
                              {2048: image}, 128)
    found = document(good("info", "--json", disk))["disk"]
    partition, = found["partitions"]
    assert partition["filesystem"]["type"] == "ext4" and partition["name"] == "one"
    assert exact(found, "image") == os.fsencode(disk)
    table = document(good("part", disk, "list", "--json"))["table"]
    assert [row["start"] for row in table["partitions"]] == [2048 * 512]
    row, = document(good("df", "--json", disk))["filesystems"]
    header = host.run("dumpe2fs", "-h", image).stdout
    blocks, reserved, size = (int(re.search(rf"^{name}: +(\d+)$", header, re.MULTILINE)[1])
                              for name in ("Free blocks", "Reserved block count", "Block size"))
    assert row["volume"] == f"{disk}@1" and row["type"] == "ext4"
    assert row["size"] - row["used"] == blocks * size and 0 < row["used"] < row["size"]
    # The kernel keeps some blocks for itself besides.
    assert (blocks - 2 * reserved) * size < row["available"] <= (blocks - reserved) * size
    trimmed, = items(good("fstrim", "--json", f"{disk}@1"))
    assert trimmed["volume"] == f"{disk}@1" and trimmed["bytes"] > 0
    odd = os.fsdecode(os.fsencode(work) + b"/\xff.img")
    host.copy_sparse(disk, odd)
    assert exact(document(good("info", "--json", odd))["disk"], "image") == os.fsencode(odd)


# ---- errors ----


def test_errors_come_with_the_results(work, image):
    result = bad("stat", "--json", f"{work}/none.img:/x", f"{image}:/absent", f"{image}:/file")
    assert [item["path"] for item in items(result)] == [f"{image}:/file"]
    messages = [error["message"] for error in end(result)["errors"]]
    assert len(messages) == 2 and "none.img" in messages[0] and "absent" in messages[1]
    assert result.err == "".join(f"outboard: {message}\n" for message in messages)


def kind_of(*words):
    """The kind of the only error of a command that must fail."""
    result = run(*words)
    error, = end(result)["errors"]
    assert result.code == 1 and error["message"] in result.err, str(result)
    return error["kind"]


def test_an_image_without_a_partition_table(work, image):
    zeroes = host.sparse_file(f"{work}/zeroes", 4 << 20)
    for path in image, zeroes:
        for words in (["list", "--json"], ["add", "--json", "linux:1M"], ["delete", "--json", "1"]):
            assert kind_of("part", path, *words) == "not-found"
    assert kind_of("part", image, "create", "--json", "linux:rest") == "already-exists"
    good("part", zeroes, "create", "--force", "linux:1M")
    assert kind_of("part", zeroes, "delete", "--json", "7") == "not-found"
    empty = host.sparse_file(f"{work}/empty", 0)
    assert kind_of("part", empty, "list", "--json") == "not-a-file-system"


@pytest.mark.needs("qemu-img")
def test_a_qcow2_whose_tables_cannot_be(work, image):
    for name, offset, value, kind in (
            ("L1 table", 40, 1 << 40, "damaged"), ("refcount table", 48, 1 << 40, "damaged"),
            ("encryption", 32, 1 << 32, "unsupported")):
        path = f"{work}/{name}.qcow2"
        host.run("qemu-img", "convert", "-O", "qcow2", image, path)
        with open(path, "r+b") as stream:
            stream.seek(offset)
            stream.write(value.to_bytes(8, "big"))
        for words in (["ls", "--json", f"{path}:/"], ["info", "--json", path],
                      ["touch", "--json", f"{path}:/x"]):
            assert kind_of(*words) == kind, name


def test_a_copy_onto_the_image_itself(work, image):
    os.link(image, f"{work}/linked")
    os.symlink("disk.img", f"{work}/symbolic")
    before = images.contents(image)
    for name in ("disk.img", "linked", "symbolic"):
        words = ("cp", "--json", "--force", f"{image}:/file", f"{work}/{name}")
        assert kind_of(*words) == "in-use", name
    other = host.sparse_file(f"{work}/other.img", 0)
    host.copy_sparse(image, other)
    assert kind_of("cp", "--json", f"{image}:/file", other) == "already-exists"
    assert images.contents(image) == images.contents(other) == before


def test_bytes_that_cannot_be_copied(work, image):
    disk = images.partitioned(f"{work}/gpt.img",
                              "label: gpt\nstart=2048, size=131072, name=one\n", {2048: image}, 128)
    large = host.sparse_file(f"{work}/large", 65 << 20)
    with open(f"{work}/notes", "wb") as stream:
        stream.write(b"notes" * 1000)
    before = images.contents(disk)
    for words, kind in (((large, f"{disk}@1"), "no-space"),
                        ((f"{work}/notes", f"{disk}@1"), "already-exists"),
                        ((f"{disk}@1", f"{disk}@1"), "in-use"),
                        ((f"{disk}@7", f"{work}/new"), "not-found")):
        assert kind_of("cp", "--json", *words) == kind, words
    assert images.contents(disk) == before


def test_an_error_names_its_file(image):
    host.run("debugfs", "-w", "-R", "clri /file", image)
    error, = end(bad("du", "-a", "--json", f"{image}:/"))["errors"]
    assert error["path"] == f"{image}:/file" and error["errno"] > 0


@pytest.mark.parametrize("words, kind, path", [
    (("cp", "-r", "LARGE/.", "IMAGE:/"), "no-space", "IMAGE:/large"),
    (("tar-in", "IMAGE:/etc", "TAR"), "no-space", "IMAGE:/etc/large"),
    (("mkdir", "IMAGE:/file"), "already-exists", "IMAGE:/file"),
    (("mv", "IMAGE:/none", "IMAGE:/new"), "not-found", "IMAGE:/none"),
    (("ln", "IMAGE:/none", "IMAGE:/new"), "not-found", "IMAGE:/none"),
    (("cp", "IMAGE:/none", "NEW"), "not-found", "IMAGE:/none"),
    (("cp", "NEW", "IMAGE:/"), "not-found", "NEW"),
    (("tar-in", "IMAGE:/", "NEW"), "not-found", "NEW"),
    (("tar-out", "IMAGE:/", "-f", "NEW/x"), "not-found", "NEW/x"),
    (("truncate", "-s", "0", "IMAGE:/etc/passwd/none"), "other", "IMAGE:/etc/passwd/none"),
    (("mkfs", "ext4", "NEW", "--size", "8M", "--from", "LARGE"), "no-space", "NEW"),
    (("rm", "IMAGE:/etc"), "usage", "IMAGE:/etc"),
], ids=lambda words: words[0] if isinstance(words, tuple) else "")
def test_errors_of_writes_name_their_file(work, image, words, kind, path):
    os.mkdir(f"{work}/large")
    with open(f"{work}/large/large", "wb") as stream:
        stream.write(b"x" * os.path.getsize(image))
    host.run("tar", "-cf", f"{work}/large.tar", "-C", f"{work}/large", "large")
    names = {"IMAGE": image, "LARGE": f"{work}/large", "TAR": f"{work}/large.tar",
             "NEW": f"{work}/new.img"}

    def whole(text):
        for name, value in names.items():
            text = re.sub(rf"\b{name}\b", value, text)
        return text

    error = end(bad(*with_json([whole(word) for word in words])))["errors"][0]
    assert error["kind"] == kind, error
    assert error["path"] == whole(path), error
    # These two are the program's own errors.
    assert ("errno" in error) == (words[0] not in ("mkfs", "rm")), error


@pytest.mark.parametrize("words, kind, path", [
    (("ls", "NONE:/"), "not-found", "NONE"),
    (("info", "NONE"), "not-found", "NONE"),
    (("info", "NOISE"), "not-a-file-system", "NOISE"),
    (("ls", "NONE"), "not-found", "NONE"),
    (("cp", "NONE:/file", "NEW"), "not-found", "NONE"),
    (("stat", "NOISE:/file"), "not-a-file-system", "NOISE"),
    (("fsck", "NOISE"), "not-a-file-system", "NOISE"),
    (("resize", "NOISE", "8M"), "not-a-file-system", "NOISE"),
    (("stat", "IMAGE@7:/"), "not-found", "IMAGE@7"),
    (("rm", "--ro", "IMAGE:/file"), "read-only", "IMAGE"),
    (("mkdir", "TEXT:/new"), "not-a-file-system", "TEXT"),
], ids=lambda words: words[0] if isinstance(words, tuple) else "")
def test_errors_of_opening_name_the_image(work, image, words, kind, path):
    names = {"IMAGE": image, "NONE": f"{work}/none.img", "NEW": f"{work}/new", "TEXT": __file__,
             "NOISE": images.write_noise(f"{work}/noise.img", 1)}

    def whole(text):
        for name, value in names.items():
            text = re.sub(rf"\b{name}\b", value, text)
        return text

    code = 8 if words[0] == "fsck" else 1
    error, = end(bad(*with_json([whole(word) for word in words]), code=code))["errors"]
    assert (error["kind"], error.get("path")) == (kind, whole(path)), error


def test_a_damaged_image(work):
    path = images.write_noise(f"{work}/noise.img", 1)
    for command in ("ls", "du"):
        error, = end(bad(command, "--json", f"{path}:/"))["errors"]
        assert path in error["message"]
    found = document(bad("info", "--json", path))
    assert found["disk"]["filesystem"] is None and len(found["errors"]) == 1


@pytest.mark.parametrize("words, command", [
    (("ls", "--json"), "ls"),
    (("ls", "--json", "--nonsense", "x.img:/"), "ls"),
    (("--json",), None),
    (("nonsense", "--json"), None),
    (("find", "--json", "x.img:/", "-nonsense"), "find"),
    (("stat", "--json", "no-place"), "stat"),
])
def test_a_wrong_command_line(words, command):
    result = bad(*words, code=2)
    found = lines(result)
    assert found[0]["command"] == command
    assert [error["kind"] for error in found[-1]["errors"]] == ["usage"]


def test_many_errors_take_bounded_room(image):
    places = [f"{image}:/none{number}" for number in range(1003)]
    found = end(bad("stat", "--json", *places))
    assert len(found["errors"]) == 1000 and found["more_errors"] == 3


@pytest.mark.needs_root
def test_failures_in_the_sandboxed_copy(work):
    """Of a command that itself stays outside of the sandbox."""
    with as_nobody() as user:
        os.mkdir(f"{user.directory}/tree")
        for name in ("closed", "open"):
            with open(f"{user.directory}/tree/{name}", "w", encoding="ascii") as stream:
                stream.write(name)
        os.chmod(f"{user.directory}/tree/closed", 0)
        result = user.run("mkfs", "--json", "ext4", "x", "--size", "16M", "--from", "tree")
    (error,) = document(result)["errors"]
    assert error["kind"] == "permission-denied" and error["path"] == "tree/./closed", str(result)
    assert error["message"] in result.err


@pytest.mark.needs("mkfs.vfat")
def test_warnings_of_the_sandboxed_copy(work):
    os.mkdir(f"{work}/tree")
    with open(f"{work}/tree/old", "w", encoding="ascii"):
        pass
    os.utime(f"{work}/tree/old", ns=(0, 0))
    result = good("mkfs", "--json", "vfat", f"{work}/x", "--from", f"{work}/tree", notes=LOSSES)
    warnings = document(result)["warnings"]
    assert warnings and all(warning in result.err for warning in warnings), str(result)
    assert any("times" in warning for warning in warnings), warnings


def test_the_output_of_tools_is_beside_json(work):
    result = good("-v", "mkfs", "--json", "vfat", f"{work}/x", "--size", "32M", notes=["mkfs.fat"])
    assert document(result)["ok"] and "mkfs.fat" in result.err


@pytest.mark.parametrize("words", ["fsck --replay @", "resize @ --max", "edit @:/file",
                                   "mkfs ext4 @ --force", "part @ list", "mount @ %"])
def test_failures_of_other_commands_that_use_a_copy(work, words):
    """On a file that is no image of anything but the head of a qcow2."""
    with open(f"{work}/image", "wb") as stream:
        stream.write(b"QFI\xfb" + bytes(508))
    result = run(*with_json(words_of(words, f"{work}/image", work)))
    assert result.code != 0 and end(result)["errors"], str(result)


def test_warnings(work, image):
    fat = images.make(f"{work}/fat.img", "vfat")
    good("setfattr", "-n", "user.x", "-v", "y", f"{image}:/etc/passwd")
    result = run("cp", "-a", "--json", f"{image}:/etc", f"{fat}:/")
    warnings = end(result)["warnings"]
    assert result.code == 0 and any("not kept" in warning for warning in warnings), str(result)


def test_no_document_without_a_request(image):
    assert bad("ls", f"{image}:/absent").out == ""
    assert good("chmod", "600", f"{image}:/file").out == ""


# ---- scripts ----


def test_lines_of_a_script(work, image):
    """Each line prints its own, and has its own errors."""
    with open(f"{work}/script", "w", encoding="utf-8") as stream:
        stream.write(
            f"stat {image}:/absent1\nstat --json {image}:/absent2\nls --json {image}:/etc\n"
                     f"mkdir --json {image}:/new\nfsck --json {image}\n")
    result = bad("run-script", "--keep-going", f"{work}/script")
    found = [json.loads(line) for line in result.raw.decode().split("\n")[:-1]]
    heads = [line["command"] for line in found if "version" in line]
    assert heads == ["stat", "ls", "mkdir", "fsck"]
    errors = [len(line["errors"]) for line in found if "ok" in line]
    assert errors == [1, 0, 0, 0] and "absent2" in json.dumps(found[1])


# ---- the guide ----


@pytest.mark.needs("jq")
def test_examples_of_the_guide(work, image):
    os.symlink(program.PROGRAM, f"{work}/outboard")
    with open(GUIDE, encoding="utf-8") as stream:
        text = stream.read()
    shell = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    python = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(shell) == 3 and len(python) == 1 and os.path.basename(image) == "disk.img"
    path = f"{work}:{host.PATH}"
    with open(f"{work}/tree/new", "wb"):
        pass
    good("cp", f"{work}/tree/new", f"{image}:/new")
    said = [host.run("sh", "-euc", code, cwd=work, PATH=path).stdout for code in shell]
    assert '"disk.img:/etc/passwd"' in said[0]
    assert said[1].startswith("14\tdisk.img:/etc/passwd\n5\tdisk.img:/file\n")
    assert re.fullmatch(r"disk\.img: \d+%\n", said[2])
    assert "b'disk.img:/new'" in host.run("python3", "-c", python[0], cwd=work, PATH=path).stdout
