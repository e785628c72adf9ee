# SPDX-License-Identifier: GPL-2.0-only
"""File systems and disks of servers, through the kernel's clients of NFS, SMB, 9p and NBD: whole
trees in and out, and what happens with servers that refuse, are silent or end.
"""

import contextlib
import filecmp
import getpass
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile

import pytest

from support import host, images, program, servers
from support.json_output import items

pytestmark = pytest.mark.timeout(600)

# What a request may take in the tests of servers that do not answer.
SECONDS = 4

# How servers are reached: by an interface behind the host's, or by sockets of the host.
WAYS = pytest.mark.parametrize("net", ["user", "host"])


def fill(directory: str):
    os.makedirs(os.path.join(directory, "sub", "empty"))
    with open(os.path.join(directory, "hello.txt"), "w", encoding="ascii") as file:
        file.write("Hello\n")
    with open(os.path.join(directory, "sub", "data"), "wb") as file:
        file.write(os.urandom(3_000_001))


def same(left: str, right: str):
    compared = filecmp.dircmp(left, right)
    assert not compared.left_only and not compared.right_only, compared.report()
    differing = filecmp.cmpfiles(left, right, compared.common_files, shallow=False)
    assert differing[1:] == ([], []), differing
    for name in compared.common_dirs:
        same(os.path.join(left, name), os.path.join(right, name))


@pytest.fixture(params=["nfs", "nfs-4.0", "smb", "9p"])
def share(request, work):
    """A server with a tree: its object, the name of its file system, and options for it."""
    with servers.share(request.param, work) as found:
        fill(found.server.export)
        yield found.server, found.name(), found.options


@WAYS
def test_a_tree_in_and_out(share, net, work):
    server, name, options = share
    options = ("--net", net, *options)
    listed = program.good(*options, "find", f"{name}:/")
    names = {os.path.basename(line) for line in listed.out.splitlines()}
    assert {"hello.txt", "sub", "data", "empty"} <= names, str(listed)
    assert program.good(*options, "cat", f"{name}:/hello.txt").out == "Hello\n"
    found = program.good(*options, "find", f"{name}:/", "-name", "data").out
    assert found == f"{name}:/sub/data\n" or found.endswith("/sub/data\n"), found
    described, = items(program.good(*options, "stat", "--json", f"{name}:/hello.txt"))
    assert (described["type"], described["size"]) == ("file", 6)
    out = os.path.join(work, "out")
    program.good(*options, "cp", "-r", f"{name}:/", out)
    same(server.export, out)
    program.good(*options, "cp", "-r", out, f"{name}:/copy")
    same(out, os.path.join(server.export, "copy"))
    program.good(*options, "mkdir", f"{name}:/packed")
    packed = program.good(*options, "tar-out", f"{name}:/copy").raw
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert any(entry.name.endswith("sub/data") for entry in archive)
    done = subprocess.run(program.command(*options, "tar-in", f"{name}:/packed"), input=packed,
                          capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    same(out, os.path.join(server.export, "packed"))
    program.good(*options, "rm", "-r", f"{name}:/copy")
    assert not os.path.exists(os.path.join(server.export, "copy"))


@WAYS
def test_nfs_3(net, work):
    """Its mount service is found by the port mapper, or at the port that the name says."""
    with servers.nfs_3(work, mount_port=20480) as server:
        fill(server.export)
        prefix = servers.beside(server.process)
        name = f"nfs://{servers.HOST}{server.export}?vers=3"
        out = os.path.join(work, "out")
        way = ("--net", net)
        program.good(*way, "cp", "-r", f"{name}:/", out, prefix=prefix)
        same(server.export, out)
        program.good(*way, "cp", "-r", out, f"{name}&mountport=20480:/copy", prefix=prefix)
        same(out, os.path.join(server.export, "copy"))
        program.good(*way, "rm", "-r", f"{name}:/copy", prefix=prefix)
        assert not os.path.exists(os.path.join(server.export, "copy"))
        program.bad(*way, "ls", f"{name}&mountport=20481:/", prefix=prefix,
                    mentions=["connection refused"])
        program.bad(*way, "ls", f"nfs://{servers.HOST}/nothing?vers=3:/", prefix=prefix,
                    mentions=["/nothing"])


@WAYS
def test_a_mount(share, net, work):
    server, name, options = share
    options = ("--net", net, *options)
    directory = os.path.join(work, "mounted")
    os.mkdir(directory)
    program.good(*options, "mount", name, directory)
    try:
        same(server.export, directory)
        with open(os.path.join(directory, "new"), "w", encoding="ascii") as file:
            file.write("text")
        removed = os.path.join(directory, "removed")
        with open(removed, "w", encoding="ascii") as file:
            file.write("text")
        # The host then tells its server when the file was changed: nothing of it was lost.
        os.remove(removed)
    finally:
        program.good("umount", directory)
    assert not os.path.exists(os.path.join(server.export, "removed"))
    with open(os.path.join(server.export, "new"), encoding="ascii") as file:
        assert file.read() == "text"


def test_missing_names(share):
    server, name, options = share
    program.bad(*options, "ls", f"{name}:/none", mentions=["/none", "no such file"])
    wrong = name.rpartition("/")[0] + "/nothing"
    # diod refuses every tree that it does not export.
    reason = "refuses this user or tree" if name.startswith("9p:") else "has no such"
    program.bad(*options, "ls", f"{wrong}:/", mentions=[f"the server {reason}"])


@contextlib.contextmanager
def reader_without_server(share, net):
    """`outboard cat` of a large file, after the end of its server."""
    server, name, options = share
    with open(os.path.join(server.export, "large"), "wb") as file:
        file.truncate(1 << 30)
    words = program.command("--net", net, *options, f"--timeout={SECONDS}", "cat", f"{name}:/large")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reader:
        try:
            assert len(reader.stdout.read(1 << 20)) == 1 << 20
            os.killpg(server.process.pid, signal.SIGKILL)
            yield reader
        finally:
            reader.kill()


# The kernel's SMB client waits for minutes, and may wait for ever.
@WAYS
@pytest.mark.parametrize("share", ["nfs", "nfs-4.0", "9p"], indirect=True)
def test_a_server_that_ends_is_an_error(share, net):
    with reader_without_server(share, net) as reader:
        _, told = reader.communicate(timeout=300)
    assert reader.returncode == 1, told
    assert b"large" in told, told


@WAYS
@pytest.mark.parametrize("share", ["smb"], indirect=True)
def test_a_signal_ends_the_wait_for_a_server_that_has_ended(share, net):
    with reader_without_server(share, net) as reader:
        reader.send_signal(signal.SIGINT)
        reader.communicate(timeout=300)
    assert reader.returncode in (-signal.SIGINT, 128 + signal.SIGINT)


def test_names_that_are_one_on_a_share(work):
    """Samba takes `A` and `a` for one name, as Windows does."""
    user = getpass.getuser()
    tree = os.path.join(work, "tree")
    os.mkdir(tree)
    for name in "Aa":
        servers.write(os.path.join(tree, name), name)
    with servers.smb(work, user) as server:
        key = servers.write(os.path.join(work, "key"), servers.PASSWORD + "\n")
        share = f"smb://{user}@{servers.HOST}:{server.port}/share:/"
        options = ("--net", "host", "--key-file", key)
        # Into a directory that the command makes, and twice into one that exists.
        for source in (tree, f"{tree}/.", f"{tree}/."):
            mentions = [f"{tree}/", "would overwrite", share]
            program.bad(*options, "cp", "-r", source, share, mentions=mentions)
        for directory in (server.export, os.path.join(server.export, "tree")):
            kept = [name for name in os.listdir(directory) if name in "Aa"]
            assert len(kept) == 1, kept
            with open(os.path.join(directory, kept[0]), encoding="ascii") as stream:
                assert stream.read() in "Aa"


def test_files_that_a_share_does_not_take(work):
    """Each is named with a reason, and the others are copied."""
    tree = make_tree(work)
    os.symlink("1", os.path.join(tree, "link"))
    os.mkfifo(os.path.join(tree, "fifo"))
    with servers.share("smb", work) as found:
        words = (*found.options, "--net", "host", "cp", "-r", tree)
        done = program.bad(*words, f"{found.name()}:/new", mentions=[
            "link: this SMB share takes no symbolic links",
            "fifo: this SMB share takes no devices"])
        assert len(done.err.splitlines()) == 2, done
        assert len(os.listdir(os.path.join(found.server.export, "new"))) == 50
        program.good(*words, f"{found.name()}?mfsymlinks&sfu:/other")


def test_wrong_password(work):
    user = getpass.getuser()
    with servers.smb(work, user) as server:
        key = servers.write(os.path.join(work, "key"), "wrong\n")
        name = f"smb://{user}@{servers.HOST}:{server.port}/share"
        told = program.bad("--key-file", key, "ls", f"{name}:/", mentions=["refuses this user"])
        assert "wrong" not in told.err
        program.bad("ls", f"{name}:/", mentions=["--key-file"], prefix=["setsid"])


@WAYS
@pytest.mark.parametrize("form", ["nfs://{}/e?vers=4.2", "smb://{}/s", "9p://{}/", "nbd://{}/"])
def test_nobody_listens(form, net):
    name = form.format(f"{servers.HOST}:{servers.free_port()}")
    done = program.bad("--net", net, "--timeout=10", "ls", "--json", f"{name}:/")
    assert json.loads(done.out.splitlines()[-1])["errors"][0]["kind"] == "unreachable", done


@WAYS
@pytest.mark.parametrize("form", ["nfs://{}/e?vers=4.2", "smb://{}/s", "9p://{}/", "nbd://{}/"])
def test_a_silent_server(form, net):
    """The command ends by itself."""
    with servers.silent() as port:
        program.bad("--net", net, f"--timeout={SECONDS}", "ls",
                    form.format(f"{servers.HOST}:{port}") + ":/", mentions=["does not answer"])


def test_names_of_no_host():
    program.bad("ls", "nfs://no-such-host.invalid/e:/",
                mentions=["cannot find the server no-such-host.invalid"])
    program.bad("ls", "smb://ann:secret@h/s:/", code=2, mentions=["--key-file"])
    program.bad("--net", "tap,ip=1", "ls", "nfs://127.0.0.1/e:/")


@pytest.mark.parametrize("net,part", [
    ("tap:nosuch0,ip=10.1.0.1/24", "tap:nosuch0"), ("user:passt", "user:passt"),
    ("hub:{work}/hub", "hub:{work}/hub"), ("vhost-user:{work}/socket", "vhost-user:{work}/socket"),
    ("pcap:{work}/frames", "pcap:{work}/frames"), ("user,pcap={work}/frames", "pcap={work}/frames"),
    ("user,forward=8080:80", "forward=8080:80")])
def test_interfaces_that_the_sandbox_forbids(work, net, part):
    """The message names the sandbox, before a part of the interface is there."""
    program.bad("--net", net.format(work=work), "ls", "nbd://10.1.0.2/e",
                mentions=[f"the sandbox forbids {part.format(work=work)}; add --no-sandbox"])
    assert os.listdir(work) == []


def test_a_capture_replaces_no_image(work):
    image = images.make(os.path.join(work, "image.ext4"), "ext4", 8)
    with open(image, "rb") as file:
        before = file.read()
    for source in (f"{image}:/lost+found", __file__):
        program.bad("--no-sandbox", "--net", f"user,pcap={image}", "cp", "-r", source,
                    "nbd://127.0.0.1:1/:/", mentions=["cannot capture into", image])
    with open(image, "rb") as file:
        assert file.read() == before


# ---- NBD ----

@WAYS
def test_a_disk_in_memory(net, work):
    """An image goes in, with a partition, and out of the server's memory again."""
    image = images.make(os.path.join(work, "image.ext4"), "ext4", 32)
    program.good("mkdir", f"{image}:/directory")
    with servers.nbd(work, "file", image) as server:
        name = f"nbd://{servers.HOST}:{server.port}"
        data = os.path.join(work, "data")
        with open(data, "wb") as file:
            file.write(os.urandom(5_000_000))
        way = ("--net", net)
        program.good(*way, "cp", data, f"{name}:/directory/")
        program.good(*way, "cp", f"{name}:/directory/data", os.path.join(work, "back"))
        assert filecmp.cmp(data, os.path.join(work, "back"), shallow=False)
        assert "ext4" in program.good(*way, "info", name).out
        with open(data, "rb") as file:
            assert program.good(*way, "cat", f"{name}:/directory/data").raw == file.read()
    program.good("cp", f"{image}:/directory/data", os.path.join(work, "direct"))
    assert filecmp.cmp(data, os.path.join(work, "direct"), shallow=False)
    assert host.run("e2fsck", "-fn", image).returncode == 0


def check_disk(image: str):
    host.run("e2fsck", "-fn", image)


def make_tree(work: str) -> str:
    tree = os.path.join(work, "tree")
    os.mkdir(tree)
    for number in range(50):
        servers.write(os.path.join(tree, str(number)), str(number))
    return tree


def test_one_disk_under_two_names(work):
    """It is mounted once, whatever its server is called."""
    image = images.make(os.path.join(work, "image.ext4"), "ext4", 32)
    way, tree = ("--net", "host"), make_tree(work)
    with servers.nbd(work, "file", image) as server:
        one, other = (f"nbd://{name}:{server.port}" for name in ("127.0.0.1", "localhost"))
        program.good(*way, "cp", "-r", tree, f"{one}:/t1")
        program.good(*way, "mv", f"{one}:/t1", f"{other}/:/t2")
        program.good(*way, "cp", "-r", f"{one}:/t2", f"{other}:/t3")
        program.bad(*way, "cp", f"{one}:/t2/1", f"{other}:/t2/1", mentions=["same file"])
        program.good(*way, "cp", "-r", f"{other}:/t2", os.path.join(work, "out"))
    same(tree, os.path.join(work, "out"))
    check_disk(image)


def test_two_disks_with_the_same_bytes(work):
    """Two exports of one file, and the file itself: nothing is written beside another mount."""
    image = images.make(os.path.join(work, "image.ext4"), "ext4", 32)
    copy = os.path.join(work, "copy.ext4")
    way, tree = ("--net", "host"), make_tree(work)
    program.good("cp", "-r", tree, f"{image}:/t")
    shutil.copyfile(image, copy)
    host.run("e2fsck", "-fp", copy, ok=(0, 1))
    host.run("tune2fs", "-U", "random", copy)
    with servers.nbd(work, "file", image) as first, servers.nbd(work, "file", image) as second:
        one, other = (f"nbd://127.0.0.1:{server.port}" for server in (first, second))
        for command, source, target in (("mv", one, other), ("cp", one, other), ("cp", image, one),
                                        ("cp", one, image)):
            program.bad(*way, command, f"{source}:/t/1", f"{target}:/new",
                        mentions=[source, target, "the same volume"])
        program.good(*way, "cat", f"{one}:/t/1", f"{other}:/t/2")
        program.good(*way, "cp", f"{one}:/t/1", f"{copy}:/new")
    check_disk(image)
    check_disk(copy)


def test_two_partitions_with_the_same_bytes(work):
    """They are two volumes: nobody mixes them up, as the disk has one name."""
    disk = os.path.join(work, "disk.img")
    program.good("part", disk, "create", "--size", "80M", "linux:32M", "linux:32M")
    program.good("mkfs", "ext4", f"{disk}@1")
    program.good("cp", f"{disk}@1", f"{disk}@2")
    with servers.nbd(work, "file", disk) as server:
        name = f"nbd://{servers.HOST}:{server.port}/"
        program.good("mkdir", f"{name}@1:/made")
        program.good("cp", "-r", f"{name}@1:/made", f"{name}@2:/copied")
        assert "copied" in program.good("ls", f"{name}@2:/").out
        assert "copied" not in program.good("ls", f"{name}@1:/").out


def test_a_partition(work):
    """With a table of partitions, in the server's memory."""
    disk = os.path.join(work, "disk.img")
    program.good("part", disk, "create", "--size", "64M", "root-x86-64:rest")
    program.good("mkfs", "ext4", f"{disk}@1")
    with servers.nbd(work, "file", disk) as server:
        name = f"nbd://{servers.HOST}:{server.port}/"
        program.good("mkdir", f"{name}@1:/made")
        assert "made" in program.good("ls", f"{name}@1:/").out


def test_a_disk_that_can_only_be_read(work):
    image = images.make(os.path.join(work, "image.ext4"), "ext4", 32)
    with servers.nbd(work, "-r", "file", image) as server:
        name = f"nbd://{servers.HOST}:{server.port}"
        assert "lost+found" in program.good("ls", f"{name}:/").out
        program.bad("mkdir", f"{name}:/x", mentions=["read-only"])


@WAYS
def test_a_disk_whose_server_ends(net, work):
    image = images.make(os.path.join(work, "image.ext4"), "ext4", 512)
    large = os.path.join(work, "large")
    with open(large, "wb") as file:
        file.write(bytes(200 << 20))
    program.good("cp", large, f"{image}:/")
    with servers.nbd(work, "file", image) as server:
        words = program.command("--net", net, "--timeout=10", "cat",
                                f"nbd://{servers.HOST}:{server.port}:/large")
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reader:
            assert len(reader.stdout.read(1 << 20)) == 1 << 20
            server.kill()
            _, told = reader.communicate(timeout=120)
    assert reader.returncode == 1 and b"large" in told, told


@pytest.mark.parametrize("filters", [("--filter=error", "error-pread-rate=100%"),
                                     ("--filter=delay", "rdelay=20")])
def test_a_disk_that_cannot_be_read(work, filters):
    """Nobody takes it for an empty one."""
    disk = os.path.join(work, "disk.img")
    program.good("part", disk, "create", "--size", "16M", "linux:rest")
    with servers.nbd(work, filters[0], "file", disk, filters[1]) as server:
        name = f"nbd://{servers.HOST}:{server.port}/"
        for words in (("ls", f"{name}@1:/"), ("info", name), ("cat", f"{name}@1")):
            done = program.bad("--timeout=2", *words)
            assert "cannot read" in done.err and "table" not in done.err, done
            assert "kernel: " in done.err, done


def test_a_disk_whose_end_cannot_be_read(work):
    """A RAID may have its superblock there, which is unknown then."""
    image = images.make(os.path.join(work, "image"), "ext4", 16)
    with servers.nbd(work, "eval", "get_size=echo 16777216", "pread=if [ $4 -ge 16700000 ]; then "
                     "echo EIO gone >&2; exit 1; fi; "
                     f"dd if={image} iflag=skip_bytes,count_bytes skip=$4 count=$3") as server:
        name = f"nbd://{servers.HOST}:{server.port}/"
        program.bad("ls", f"{name}:/", mentions=["cannot read"])


def test_a_server_that_takes_small_requests(work):
    """It refuses larger ones."""
    image = images.make(os.path.join(work, "image.ext4"), "ext4", 32)
    data = os.path.join(work, "data")
    with open(data, "wb") as file:
        file.write(os.urandom(5_000_000))
    with servers.nbd(work, "--filter=blocksize-policy", "file", image, "blocksize-maximum=64K",
                     "blocksize-error-policy=error") as server:
        name = f"nbd://{servers.HOST}:{server.port}"
        program.good("cp", data, f"{name}:/data")
        with open(data, "rb") as file:
            assert program.good("cat", f"{name}:/data").raw == file.read()
    check_disk(image)


def test_a_disk_has_no_options(work):
    """An option would be ignored, and make two disks of one."""
    program.bad("ls", "nbd://127.0.0.1/disk?tls=yes:/", code=2, mentions=["no options"])


@pytest.mark.parametrize("sector", [512, 4096])
def test_a_disk_with_blocks_of_4096_bytes(work, sector):
    """Its table may be for smaller sectors, as that of a file that was made elsewhere."""
    disk = os.path.join(work, "disk.img")
    if sector == 512:
        program.good("part", disk, "create", "--size", "32M", "linux:rest")
    else:
        images.gpt_of_4096(disk, 32, (1, 30))
    program.good("mkfs", "ext4", f"{disk}@1", "--", "-b", "4096")
    with servers.nbd(work, "--filter=blocksize-policy", "file", disk,
                     "blocksize-minimum=4096") as server:
        name = f"nbd://{servers.HOST}:{server.port}/"
        assert "ext4" in program.good("info", name).out
        program.good("mkdir", f"{name}@1:/made")
        assert "made" in program.good("ls", f"{name}@1:/").out
    assert "made" in program.good("ls", f"{disk}@1:/").out
