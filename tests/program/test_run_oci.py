# SPDX-License-Identifier: GPL-2.0-only
"""Images of containers: `outboard run oci:DIR[:TAG]` and `docker-archive:FILE[:TAG]`. Good images
are made by umoci and skopeo, and compared with what umoci unpacks; hostile ones by hand.
"""

import contextlib
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import tarfile

import pytest

from support import host, program, programs

PROGRAMS = ("bash", "cat", "env", "ls", "sleep", "stat", "true")
LAYER = "application/vnd.oci.image.layer.v1.tar"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
TAG = "org.opencontainers.image.ref.name"
KINDS = {"dir": tarfile.DIRTYPE, "link": tarfile.LNKTYPE, "symlink": tarfile.SYMTYPE,
         "char": tarfile.CHRTYPE, "fifo": tarfile.FIFOTYPE, "file": tarfile.REGTYPE}


def archive(*members, tree=None):
    """A layer. A member: its name, its kind, and attributes of tarfile or `data`, `xattrs`."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        if tree:
            tar.add(tree, ".", filter=of_root)
        for name, kind, attributes in members:
            member = tarfile.TarInfo(name)
            member.type, member.mtime, member.mode = KINDS[kind], 1234567890, 0o755
            data = attributes.pop("data", b"")
            for key, value in attributes.pop("xattrs", {}).items():
                member.pax_headers[f"SCHILY.xattr.{key}"] = value
            for key, value in attributes.items():
                setattr(member, key, value)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def of_root(member):
    member.uid = member.gid = 0
    return member


class Layout:
    """A layout that is written by hand, part by part."""

    def __init__(self, directory):
        self.directory = directory
        os.makedirs(f"{directory}/blobs/sha256")
        self.document("oci-layout", {"imageLayoutVersion": "1.0.0"})

    def document(self, name, value):
        with open(os.path.join(self.directory, name), "w", encoding="ascii") as stream:
            json.dump(value, stream)

    def path(self, descriptor):
        return f"{self.directory}/blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}"

    def blob(self, media_type, data, **more):
        digest = hashlib.sha256(data).hexdigest()
        descriptor = {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}
        with open(self.path(descriptor), "wb") as stream:
            stream.write(data)
        return {**descriptor, **more}

    def json(self, media_type, value, **more):
        return self.blob(media_type, json.dumps(value).encode(), **more)

    def image(self, *layers, config=None, **more):
        """The descriptor of a manifest. Layers: bytes of archives."""
        given = {"architecture": "amd64", "os": "linux", "config": config or {}, **more}
        ids = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
        given.setdefault("rootfs", {"type": "layers", "diff_ids": ids})
        parts = [self.blob(f"{LAYER}+gzip", gzip.compress(layer)) for layer in layers]
        return self.manifest(self.json(CONFIG, given), parts)

    def manifest(self, config, layers, **more):
        value = {"schemaVersion": 2, "config": config, "layers": layers}
        return self.json(MANIFEST, value, **more)

    def index(self, *manifests):
        self.document("index.json", {"schemaVersion": 2, "manifests": manifests})
        return f"oci:{self.directory}"


@pytest.fixture(name="layout")
def fixture_layout(work):
    return Layout(os.path.join(work, "layout"))


@pytest.fixture(autouse=True)
def fixture_cache(tmp_path_factory, monkeypatch):
    """Each test has a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def cached():
    directory = os.path.join(os.environ["XDG_CACHE_HOME"], "outboard", "oci")
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []


def run(*words, given=b"", timeout=120):
    done = subprocess.run(program.command("run", *words), input=given, capture_output=True,
                          timeout=timeout, check=False)
    done.stderr = done.stderr.decode()
    return done


@pytest.fixture(scope="module", name="root")
def fixture_root(tmp_path_factory):
    """The archive of a root with programs."""
    tree = str(tmp_path_factory.mktemp("root"))
    programs.make_root(tree, *PROGRAMS)
    os.chmod(tree, 0o755)
    return archive(("etc", "dir", {}), ("etc/passwd", "file", {
        "data": b"root:x:0:0::/root:/bin/sh\nann:x:7:8::/home/ann:/bin/sh\n"}),
        ("lib/of-image", "file", {}), tree=tree)


# The second and third layer: what images do to each other's files.
CHANGES = (
    (("etc", "dir", {"mode": 0o750, "uid": 3}), ("etc/one", "file", {"data": b"one\n" * 3000}),
     ("etc/two", "file", {"data": b"two\n", "uid": 7, "gid": 8, "mode": 0o4711}),
     ("etc/hard", "link", {"linkname": "etc/one"}), ("a/implied/file", "file", {"data": b"x"}),
     ("a/fifo", "fifo", {"mode": 0o600}), ("a/link", "symlink", {"linkname": "../etc/one"}),
     ("a/null", "char", {"devmajor": 1, "devminor": 3, "mode": 0o666}),
     ("old", "dir", {}), ("old/in", "dir", {}), ("old/in/file", "file", {}),
     ("gone", "dir", {}), ("gone/deep", "dir", {}), ("gone/deep/file", "file", {}),
     ("usr/lib/real", "dir", {}), ("merged", "symlink", {"linkname": "/usr/lib"}),
     ("becomes", "dir", {}), ("becomes/file", "file", {}),
     ("etc/marked", "file", {"xattrs": {"user.note": "hello", "user.empty-ish": "x"}}),
     *((f"many/{'n' * 200}{number}", "file", {}) for number in range(60))),
    (("etc/.wh.two", "file", {}), (".wh.gone", "file", {}), ("gone", "dir", {"mode": 0o711}),
     ("old/.wh..wh..opq", "file", {}), ("old/new", "file", {"data": b"new"}),
     ("merged/through-a-link", "file", {"data": b"y"}), ("a/.wh..wh.plnk", "file", {}),
     ("etc/one", "file", {"data": b"other"}), ("a/deep/down", "file", {"data": b"z"}),
     ("becomes", "file", {"data": b"a file"}), ("twice", "file", {"data": b"1"}),
     ("twice", "file", {"data": b"22"}), (".wh.nothing", "file", {}),
     ("/absolute", "file", {"data": b"taken as a name in the image"}),
     ("./etc/./dots", "file", {}), ("hard-to-lower", "link", {"linkname": "etc/hard"})),
)


@pytest.fixture(scope="module", name="good")
def fixture_good(root, tmp_path_factory):
    """A layout of umoci with three layers, and the tag `good`."""
    directory = str(tmp_path_factory.mktemp("good"))
    layout = f"{directory}/layout"
    host.run("umoci", "init", "--layout", layout)
    host.run("umoci", "new", "--image", f"{layout}:good")
    layers = [root, *(archive(*((name, kind, dict(more)) for name, kind, more in layer))
                      for layer in CHANGES)]
    for number, layer in enumerate(layers):
        path = f"{directory}/{number}.tar"
        with open(path, "wb") as stream:
            stream.write(layer)
        host.run("umoci", "raw", "add-layer", "--image", f"{layout}:good", path)
    host.run("umoci", "config", "--image", f"{layout}:good", "--config.entrypoint", "bash",
             "--config.cmd=-c", "--config.cmd", "echo $A $B $PWD $UID", "--config.env", "A=image",
             "--config.env", "B=image", "--config.user", "ann", "--config.workingdir", "/etc",
             "--config.stopsignal", "SIGUSR1")
    return f"{layout}:good"


def described(tar):
    """All of a tar's members that two trees must have in common, by their names."""
    links, found = {}, {}
    for member in tar:
        name = member.name.removeprefix("./").strip("/.")
        data = tar.extractfile(member).read() if member.isreg() else None
        xattrs = {key: value for key, value in member.pax_headers.items() if "xattr.user" in key}
        kind = stat.S_IFMT(member.mode) or member.type
        if member.islnk():
            links[name] = member.linkname.removeprefix("./")
            found[name] = found[links[name]]
        else:
            linkname = member.linkname if member.issym() else ""
            found[name] = (kind, member.mode & 0o7777, member.uid, member.gid, int(member.mtime),
                           linkname, member.devmajor, member.devminor, data, xattrs)
    return found, links


def tar_of(text, work):
    path = os.path.join(work, "out.tar")
    with open(path, "wb") as stream:
        subprocess.run(program.command("tar-out", text), stdout=stream, check=True, timeout=120)
    return path


@pytest.mark.needs_root
def test_the_tree_is_that_of_umoci(good, work):
    host.run("umoci", "unpack", "--image", good, f"{work}/bundle")
    host.run("tar", "--xattrs", "--xattrs-include=user.*", "--format=pax", "--sort=name", "-cf",
             f"{work}/theirs.tar", "-C", f"{work}/bundle/rootfs", ".")
    with tarfile.open(f"{work}/theirs.tar") as theirs:
        wanted, links = described(theirs)
    with tarfile.open(tar_of(f"oci:{good}:/", work)) as ours:
        found, our_links = described(ours)
    # umoci gives directories that no layer describes the time of the unpacking.
    for implied in ("", "a", "a/implied", "a/deep", "usr", "usr/lib", "many"):
        for tree in (wanted, found):
            tree[implied] = tree.get(implied, (None,) * 5)[:4]
    assert set(found) == set(wanted)
    different = {name for name in wanted if found[name] != wanted[name]}
    assert not different, {name: (found[name], wanted[name]) for name in different}
    assert {frozenset(link) for link in our_links.items()} == {
        frozenset(link) for link in links.items()}


def test_layers_are_merged(good):
    text = ("cat /etc/two /old/in/file; cat /twice /merged/through-a-link /absolute; ls /gone; "
            "cat /becomes; echo; stat -c '%u %a' /etc; ls /many; cat /hard-to-lower")
    done = run("-u", "root", f"oci:{good}", "--", "-c", text)
    assert b"22ytaken as a name in the imagea file" in done.stdout, done
    assert b"\n3 750\n" in done.stdout and b"n59\n" in done.stdout
    assert done.stdout.endswith(b"one\n" * 3000), "the lower file of a hard link"
    assert all(f"{name}: No such file" in done.stderr for name in ("/etc/two", "/old/in/file"))


def test_the_configuration_holds(good):
    assert run(f"oci:{good}").stdout == b"image image /etc 7\n"
    done = run("-e", "B=mine", "-w", "/", "-u", "0", f"oci:{good}")
    assert done.stdout == b"image mine / 0\n", done
    # Arguments take the place of the command, not of the entry point.
    done = run(f"oci:{good}", "--", "-c", "echo $0 $1; exit 5", "zero", "first")
    assert (done.returncode, done.stdout) == (5, b"zero first\n"), done
    assert run("--entrypoint", "", f"oci:{good}", "--", "/usr/bin/true").returncode == 0
    done = run("--entrypoint", "env", f"oci:{good}")
    assert b"A=image\n" in done.stdout and b"HOME=/home/ann\n" in done.stdout, done


def test_the_signal_that_stops(good):
    text = "trap 'echo stopped; exit 3' USR1; echo ready; while :; do sleep 0.05; done"
    words = program.command("run", f"oci:{good}", "--", "-c", text)
    with subprocess.Popen(words, stdout=subprocess.PIPE) as running:
        assert running.stdout.readline() == b"ready\n"
        running.terminate()
        assert running.stdout.readline() == b"stopped\n"
        assert running.wait(60) == 3


def test_changes_lie_in_memory(good):
    text = "echo new > /etc/one && cat /etc/one"
    for _ in range(2):
        done = run("-u", "0", f"oci:{good}", "--", "-c", f"cat /etc/one; echo; {text}")
        assert done.stdout == b"other\nnew\n", done
    done = run("--rw", f"oci:{good}")
    assert done.returncode == 125 and "stays as it is" in done.stderr, done


def test_the_cache_is_used(good):
    """One file for both forms of an image; a run does not read the layers again."""
    assert run(f"oci:{good}").returncode == 0
    made, = cached()
    archived = f"{good.split(':')[0]}.tar"
    host.run("skopeo", "--insecure-policy", "copy", f"oci:{good}", f"docker-archive:{archived}:a:b")
    for name in ("", ":b", ":a:b", ":docker.io/library/a:b"):
        done = run(f"docker-archive:{archived}{name}")
        assert done.stdout == b"image image /etc 7\n", done
    assert cached() == [made]
    shutil.rmtree(os.environ["XDG_CACHE_HOME"])
    assert run(f"docker-archive:{archived}:b").stdout == b"image image /etc 7\n"
    assert cached() == [made]
    done = run(f"docker-archive:{archived}:c")
    assert done.returncode == 125 and "a:b" in done.stderr, done


def test_two_at_once(good):
    words = program.command("run", f"oci:{good}")
    running = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(4)]
    for one in running:
        assert one.communicate(timeout=120)[0] == b"image image /etc 7\n" and not one.returncode
    assert len(cached()) == 1


def test_without_a_cache(good, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert run(f"oci:{good}").stdout == b"image image /etc 7\n"


def test_other_compressions(good, work):
    host.run("skopeo", "--insecure-policy", "copy", "--dest-compress-format", "zstd",
             f"oci:{good}", f"oci:{work}/zstd:x")
    assert run(f"oci:{work}/zstd").stdout == b"image image /etc 7\n"


def test_other_commands_read(good):
    assert program.good("cat", f"oci:{good}:/etc/one").out == "other"
    assert "merged" in program.good("ls", f"oci:{good}").out
    assert "erofs" in program.good("info", f"oci:{good}").out
    for words in (("rm", f"oci:{good}:/etc/one"), ("mkfs", "ext4", f"oci:{good}"),
                  ("cp", "/dev/null", f"oci:{good}:/x"), ("mount", f"oci:{good}", "/mnt")):
        done = program.run(*words)
        assert done.code in (1, 2) and "can only be read" in done.err, done


def test_tags_and_platforms(layout, root):
    image = layout.image(root, config={"Cmd": ["bash", "-c", "echo one"]})
    other = layout.image(root, config={"Cmd": ["bash", "-c", "echo two"]})
    foreign = layout.image(root, architecture="arm64")
    ours, arm = ({"architecture": one, "os": "linux"} for one in ("amd64", "arm64"))
    nested = layout.json(INDEX, {"manifests": [{**foreign, "platform": arm},
                                               {**other, "platform": ours}]})
    name = layout.index({**image, "annotations": {TAG: "one"}},
                        {**nested, "annotations": {TAG: "two"}},
                        {**foreign, "annotations": {TAG: "arm"}})
    assert run(f"{name}:one").stdout == b"one\n"
    assert run(f"{name}:two").stdout == b"two\n"
    for tag, mentions in (("", "add one of the tags, as in :one, :two, :arm"),
                          (":three", 'no tag "three": its tags: one, two, arm'),
                          (":arm", '"arm64"')):
        done = run(f"{name}{tag}")
        assert done.returncode == 125 and mentions in done.stderr, done


def bad(name, mentions):
    """The image is refused in one line, and nothing of it stays in the cache."""
    done = run(name, "--", "true")
    assert done.returncode in (2, 125), done
    assert mentions in done.stderr and len(done.stderr.splitlines()) == 1, done
    assert name in done.stderr, done
    assert cached() == []


MEMBERS = (
    ((("../up", "file", {}),), '".."'), ((("a/../../up", "file", {}),), '".."'),
    (((".wh.", "file", {}),), "hide its own directory"),
    ((("d/.wh...", "file", {}),), "hide its own directory"),
    ((("loop", "symlink", {"linkname": "loop"}), ("loop/file", "file", {})), "too many symbolic"),
    ((("file", "file", {}), ("file/below", "file", {})), "file, on the way to it, is no directory"),
    ((("hard", "link", {"linkname": "nothing"}),), "nothing, which is not there"),
    ((("hard", "link", {"linkname": "../../etc/passwd"}),), "which is not there"),
    ((("d", "dir", {}), ("hard", "link", {"linkname": "d"}),), "which is a directory"),
    ((("n" * 300, "file", {}),), "longer than Linux allows"),
    ((("link", "symlink", {"linkname": ""}),), "its target is empty"),
    (((".", "file", {}),), "the root is no directory"),
    ((("f", "file", {"xattrs": {"user.large": "x" * 70000}}),), "attributes are too large"),
)


@pytest.mark.parametrize("members,mentions", MEMBERS)
def test_hostile_members(layout, members, mentions):
    layer = archive(*((name, kind, dict(more)) for name, kind, more in members))
    bad(layout.index(layout.image(layer)), mentions)


def test_links_lead_nowhere_outside(layout, root, work):
    """A layer that writes through links of a lower one writes into the image."""
    os.mkdir(f"{work}/victim")
    links = archive(("out", "symlink", {"linkname": f"{work}/victim"}),
                    ("up", "symlink", {"linkname": "../../../../../../../.." + work + "/victim"}))
    through = archive(("out/one", "file", {"data": b"1"}), ("up/two", "file", {"data": b"2"}),
                      ("up/.wh.nothing", "file", {}))
    name = layout.index(layout.image(root, links, through))
    done = run(name, "--", "cat", f"{work}/victim/one", "/up/two")
    assert done.stdout == b"12", done
    assert os.listdir(f"{work}/victim") == []


def test_digests_and_sizes_are_checked(layout, root):
    image = layout.image(root)
    name = layout.index(image)
    with open(layout.path(image), "rb") as stream:
        manifest = json.load(stream)
    parts = {"manifest": image, "config": manifest["config"], "layer": manifest["layers"][0]}
    for part in parts.values():
        path = layout.path(part)
        with open(path, "r+b") as stream:
            last = os.path.getsize(path) - 1
            stream.seek(last)
            byte = stream.read(1)
            stream.seek(last)
            stream.write(bytes([byte[0] ^ 1]))
        bad(name, "digest")
        with open(path, "r+b") as stream:
            stream.seek(last)
            stream.write(byte)
    bad(layout.index({**image, "size": 7}), "not 7 as is said")
    short = {**manifest["layers"][0], "size": 7}
    bad(layout.index(layout.manifest(manifest["config"], [short])), "not 7 as is said")
    lying = layout.image(root, rootfs={"diff_ids": [f"sha256:{'0' * 64}"]})
    bad(layout.index(lying), "copy the image again")
    assert layout.index(image) == name
    assert run(name, "--", "true").returncode == 0


def test_documents_that_make_no_sense(layout, root, work):
    image = layout.image(root)
    with open(layout.path(image), "rb") as stream:
        manifest = json.load(stream)
    config, layer = manifest["config"], manifest["layers"][0]

    def of(**more):
        return layout.index(layout.manifest(config, [{**layer, **more}]))
    bad(layout.index(), "index.json has no image")
    bad(layout.index({**image, "mediaType": "text/plain"}), "text/plain")
    bad(layout.index({**image, "digest": "sha256:../../../../etc/passwd"}), "no digest by sha256")
    bad(layout.index({**image, "digest": "md5:00"}), "no digest by sha256")
    bad(of(mediaType="application/vnd.oci.image.layer.v1.tar+encrypted"), "no archive")
    bad(of(digest=f"sha256:{'0' * 64}", urls=["https://example.org/layer"]),
        "put https://example.org/layer there")
    bad(of(digest=f"sha256:{'0' * 64}"), "No such file")
    bad(layout.index(layout.manifest(config, [layer] * 501)), "501 layers, too many")
    bad(layout.index(layout.manifest(config, [layer] * 2)), "its configuration has 1 layers")
    bad(layout.index(layout.blob(MANIFEST, b"{")), "its JSON makes no sense")
    bad(layout.index(layout.blob(MANIFEST, b"[" * 100000)), "its JSON makes no sense")
    bad(layout.index(layout.blob(MANIFEST, b" " * (5 << 20))), "more than 4194304")
    deep = image
    for _ in range(6):
        deep = layout.json(INDEX, {"manifests": [deep]})
    bad(layout.index(deep), "indexes lie in each other")
    bad(layout.index(layout.image(root, config={"StopSignal": "SIGNOTHING"})), "is no signal")
    bad(layout.index(layout.image(root, config={"Env": ["A=\0"]})), "NUL")
    no_archive = layout.blob(LAYER, b"no archive" * 100)
    given = {"architecture": "amd64", "os": "linux",
             "rootfs": {"diff_ids": [no_archive["digest"]]}}
    bad(layout.index(layout.manifest(layout.json(CONFIG, given), [no_archive])), "layer 1")
    os.unlink(f"{layout.directory}/index.json")
    os.mkfifo(f"{layout.directory}/index.json")
    bad(f"oci:{layout.directory}", "no regular file")
    bad(f"oci:{work}/nothing", "No such file")
    bad("oci:", "no path behind the prefix")
    bad(f"docker-archive:{work}/nothing.tar", "No such file")
    bad(f"docker-archive:{layout.directory}", "it is no file")
    with open(f"{work}/zeros.tar", "wb") as stream:
        stream.write(bytes(10240))
    bad(f"docker-archive:{work}/zeros.tar", "manifest.json is not in it")


def test_sizes_have_limits(layout):
    """Neither a sparse file nor zeros that are compressed well fill the cache."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("sparse")
        member.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0",
                              "GNU.sparse.name": "sparse", "GNU.sparse.realsize": str(1 << 50)}
        member.size = 512
        tar.addfile(member, io.BytesIO(b"0\n" + bytes(510)))
    bad(layout.index(layout.image(stream.getvalue())), "more than 32")
    member = tarfile.TarInfo("large")
    member.size = 1 << 45
    claims = member.tobuf(tarfile.GNU_FORMAT)
    bad(layout.index(layout.image(claims)), "more than 32")


@pytest.mark.needs_root
def test_there_is_no_room_for_layers(layout, monkeypatch):
    """The command says so before it begins."""
    layer = archive(("noise", "file", {"data": os.urandom(4 << 20)}))
    name = layout.index(layout.image(layer))
    with host.mounted("mount", "-t", "tmpfs", "-o", "size=1M", "none") as small:
        monkeypatch.setenv("XDG_CACHE_HOME", small)
        bad(name, "set XDG_CACHE_HOME")


def filters_of(process):
    """The number of a process's filters of system calls."""
    with open(f"/proc/{process}/status", encoding="ascii") as stream:
        return re.search(r"^Seccomp_filters:\s(\d+)$", stream.read(), re.MULTILINE)[1]


def filters(process):
    """The same of its children."""
    found = set()
    # A child may have ended.
    with contextlib.suppress(OSError):
        with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as stream:
            found = {filters_of(child) for child in stream.read().split()}
    return found


def whole():
    return [name for name in cached() if name.endswith(".erofs")]


def test_the_process_that_unpacks_is_sandboxed(layout, root, monkeypatch, tmp_path):
    own = filters_of("self")
    layer = archive(("noise", "file", {"data": os.urandom(16 << 20)}))
    name = layout.index(layout.image(root, layer))
    for options in ((), ("--no-sandbox",)):
        cache = tmp_path / f"cache{len(options)}"
        cache.mkdir()
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        found = set()
        command = program.command("run", *options, name, "--", "true")
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
            # The NAT and the programs have processes later.
            while running.poll() is None and not whole():
                found |= filters(running.pid)
        assert running.returncode == 0
        assert found and (found != {own}) == (not options), (options, found)


def test_an_image_without_a_program(layout, root):
    done = run(layout.index(layout.image(root)))
    assert done.returncode == 2 and "write -- PROGRAM" in done.stderr, done
    done = run(layout.index(layout.image(root, config={"Cmd": ["nothing"]})))
    assert done.returncode == 127 and "cannot run nothing of oci:" in done.stderr, done
