# SPDX-License-Identifier: GPL-2.0-only
"""The sandbox: code inside the kernel that tries to get out, and what the process has given up when
it looks at an image.
"""

import contextlib
import errno
import os
import re
import signal
import socket
import subprocess

import pytest

from support import host, images, modules, program, servers
from support.patience import wait_until
from support.processes import blocks_open_below

HERE = os.path.join(program.REPOSITORY, "tests", "program", "sandbox")
REFUSED = (-errno.EPERM, -errno.EACCES)


@pytest.fixture(scope="module")
def drivers(tmp_path_factory):
    """The modules of tests/program/sandbox. Where others may read them: root gives up its rights.
    """
    directory = str(tmp_path_factory.mktemp("drivers"))
    modules.build(HERE, directory)
    return directory


@pytest.fixture
def component(drivers):
    return os.path.join(drivers, "escape.ko")


@pytest.fixture
def image(work):
    return images.make(os.path.join(work, "image.ext4"), "ext4", 32)


def attempts(component: str, *words, cwd: str, code: int = 1) -> dict:
    """The result of each attempt, by its name. The component's file system is mounted in place of
    the image's own.
    """
    open(os.path.join(cwd, "kept"), "w").close()
    done = program.run("-v", "--component", component, "--type", "escape", *words, cwd=cwd)
    assert done.code == code, str(done)
    found = {name: int(result)
             for name, result in re.findall(r"escape: (\w+) (-?\d+)$", done.err, re.MULTILINE)}
    assert found.get("alive") == 1, str(done)
    return found


def check_shut_in(found: dict) -> None:
    assert found.pop("clone3") == -errno.ENOSYS
    assert found.pop("alive") == 1
    assert len(found) == 27
    assert {name: result for name, result in found.items() if result not in REFUSED} == {}


def test_kernel_code_cannot_get_out(component, image, work):
    check_shut_in(attempts(component, "ls", f"{image}:/", cwd=work))
    assert not os.path.exists(os.path.join(work, "escaped"))


@pytest.mark.needs("nbdkit")
@pytest.mark.parametrize("net", ["user", "host"])
def test_kernel_code_that_reaches_servers_cannot_get_out(component, image, work, net):
    """It may connect by TCP, and no more: it opens no port."""
    with servers.nbd(work, "file", image) as server:
        name = f"nbd://{servers.HOST}:{server.port}:/"
        found = attempts(component, "--net", net, "ls", name, cwd=work)
    assert found["socket"] >= 0
    check_shut_in({**found, "socket": -errno.EPERM})


def test_kernel_code_cannot_get_out_of_a_copy(component, image, work):
    """Files of the host are used, but only those that were named."""
    inside, outside = os.path.join(work, "inside"), os.path.join(work, "outside")
    os.mkdir(inside)
    os.mkdir(outside)
    check_shut_in(attempts(component, "cp", "-a", f"{image}:/", inside, cwd=outside))
    assert os.listdir(inside) == []
    assert os.listdir(outside) == ["kept"]


@pytest.mark.needs_root
def test_kernel_code_cannot_open_the_nodes_that_it_makes(component, image, work):
    """Root copies device nodes, so code inside may make one in the target."""
    found = attempts(component, "cp", "-a", f"{image}:/", ".", cwd=work)
    assert os.path.exists(f"{work}/node")
    # Files of the target are its business.
    check_shut_in({**found, "create": -errno.EACCES, "unlink": -errno.EACCES})


@pytest.mark.needs_root
@pytest.mark.skipif(not host.has_fuse(), reason="no FUSE here")
@pytest.mark.parametrize("options", [(), ("--restart",)], ids=["once", "restart"])
def test_kernel_code_cannot_get_out_of_a_mount(component, image, work, options):
    """Its server lives long, and looks at what strangers bring."""
    place = os.path.join(work, "place")
    os.mkdir(place)
    check_shut_in(attempts(component, "mount", *options, image, place, cwd=work))
    assert not os.path.exists(os.path.join(work, "escaped"))
    assert os.path.exists(os.path.join(work, "kept"))


# ---- commands that also run other programs ----


def test_kernel_code_cannot_get_out_of_a_replay(component, image, work):
    check_shut_in(attempts(component, "fsck", "--replay", image, cwd=work, code=8))
    assert not os.path.exists(os.path.join(work, "escaped"))


def test_kernel_code_cannot_get_out_of_resize(component, work):
    image = images.make(os.path.join(work, "image.xfs"), "xfs")
    check_shut_in(attempts(component, "resize", image, "+64M", cwd=work))


def test_kernel_code_cannot_get_out_of_mkfs(component, work):
    """Nor change the tree that is copied, or what is beside the new image."""
    tree = os.path.join(work, "tree")
    os.mkdir(tree)
    check_shut_in(attempts(component, "mkfs", "ext4", f"{work}/new.ext4", "--from", tree, cwd=tree))
    assert os.listdir(tree) == ["kept"] and os.listdir(work) == ["tree"]


def test_kernel_code_cannot_get_out_of_edit(component, image, work):
    check_shut_in(attempts(component, "edit", f"{image}:/file", cwd=work))


def test_kernel_code_cannot_get_out_of_a_script(component, image, work):
    """Also of one in which a checker runs."""
    script = os.path.join(work, "script")
    with open(script, "w", encoding="ascii") as stream:
        stream.write(f"fsck {image}\nls {image}:/\n")
    check_shut_in(attempts(component, "run-script", script, cwd=work))
    assert not os.path.exists(os.path.join(work, "escaped"))


# Takes the place of a tool: prints the result of each attempt, then works as the real one would.
INTRUDER = """#!/usr/bin/python3
import ctypes, os, socket, sys
def attempt(name, what):
    try: what(); print("escape:", name, 0, flush=True)
    except OSError as error: print("escape:", name, -error.errno, flush=True)
def remote(): socket.create_connection(("127.0.0.1", 9), 1)
attempt("secret", lambda: open("{work}/secret").read())
attempt("passwd", lambda: open("/etc/passwd").read())
attempt("list", lambda: os.listdir("{work}"))
attempt("create", lambda: open("{work}/escaped", "w"))
attempt("unlink", lambda: os.unlink("{work}/kept"))
attempt("parent", lambda: os.kill(os.getppid(), 0))
attempt("first", lambda: os.kill(1, 0))
attempt("memory", lambda: open(f"/proc/{{os.getppid()}}/environ").read())
attempt("socket", lambda: socket.socket())
attempt("unix_socket", lambda: socket.socket(socket.AF_UNIX))
attempt("datagrams", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
attempt("disk", lambda: os.mknod("{work}/disk", 0o60600, os.makedev(7, 0)))
attempt("image", lambda: open(sys.argv[-1], "r{plus}b").read(1))
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    arguments = [ctypes.c_long(each) for each in (*arguments, *[-1] * 6)[:6]]
    if libc.syscall(ctypes.c_long(number), *arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
for name, (number, *arguments) in {calls}.items():
    attempt(name, lambda: call(number, *arguments))
"""
X32 = 0x40000000


def host_numbers() -> dict:
    """Names and numbers of the host's system calls."""
    with open("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", encoding="ascii") as stream:
        return {name: int(number)
                for name, number in re.findall(r"#define __NR_(\w+) (\d+)", stream.read())}


# Ioctls that root's capability for attributes permits on files that are open to be read: shutdown
# of ext4 and XFS, resizing and boot inode of ext4, FIFREEZE, FITHAW, FITRIM, flags, subvolumes of
# btrfs.
NOT_FOR_PACKING = (0x8004587d, 0x40086610, 0x6611, 0xc0045877, 0xc0045878, 0xc0185879, 0x40086602,
                   0x5000940f, 0x50009403)


def refused_calls(packs: bool) -> dict:
    """What a tool must not do, by a name: the number of a system call and its first arguments. All
    others are -1, with which no call does harm.
    """
    numbers = host_numbers()
    with open(f"{HERE}/refused_calls.txt", encoding="ascii") as stream:
        names = [line.strip() for line in stream if line[0] != "#"]
    calls = {f"call_{name}": (numbers[name],) for name in names}
    calls |= {f"x32_{name}": (numbers[name] | X32,) for name in names}
    for number in (514, 521, 524, 528, 533, 536, 539, 540):
        calls[f"x32_{number}"] = (number | X32,)
    # Limits and processors of process 1, read or set to nothing.
    calls["limits_of_first"] = (numbers["prlimit64"], 1, 7, 0, 0)
    calls["processors_of_first"] = (numbers["sched_setaffinity"], 1, 0, 0)
    calls["poison"] = (numbers["madvise"], 0, 0, 100)
    for request in (0x5412, 0x541c, *(NOT_FOR_PACKING if packs else ())):  # TIOCSTI, TIOCLINUX
        calls[f"ioctl_{request:x}"] = (numbers["ioctl"], 0, request)
    # A new user namespace; without it, -1 is refused for another reason.
    calls["clone_user"] = (numbers["clone"], 0x10000000)
    return calls


def intrude(work, tool, plus, *words) -> dict:
    """Runs a command with something else in the place of a tool. Returns what came of its attempts.
    """
    programs = os.path.join(work, "programs")
    os.makedirs(programs, exist_ok=True)
    path = os.path.join(programs, tool)
    with open(path, "w", encoding="ascii") as stream:
        calls = refused_calls(packs=tool == "mksquashfs")
        stream.write(INTRUDER.format(work=work, plus=plus, calls=calls))
    os.chmod(path, 0o755)
    for name in ("secret", "kept"):
        open(os.path.join(work, name), "w").close()
    done = program.run(*words, PATH=f"{programs}:{host.PATH}")
    found = {name: int(result)
             for name, result in re.findall(r"escape: (\w+) (-?\d+)$", done.out, re.MULTILINE)}
    assert set(calls) < set(found) and len(found) == 13 + len(calls), str(done)
    return found


@pytest.mark.parametrize("words, tool, plus", [
    (("fsck", "{image}"), "e2fsck", ""),
    (("fsck", "-y", "{image}"), "e2fsck", "+"),
    (("-v", "mkfs", "ext4", "{image}", "--force"), "mke2fs", "+"),
    (("-v", "mkfs", "squashfs", "{image}", "--force", "--from", "{work}/programs"),
     "mksquashfs", ""),
], ids=lambda value: value if isinstance(value, str) else "-".join(value[:2]))
def test_tools_are_shut_in(image, work, words, tool, plus):
    """They parse images too: what an image might make of one gets the image and no other file."""
    words = [word.format(image=image, work=work) for word in words]
    found = intrude(work, tool, plus, *words)
    if tool != "mksquashfs":  # its last word is an option
        assert found.pop("image") == 0
    else:
        found.pop("image")
    assert {name: result for name, result in found.items() if result not in REFUSED} == {}
    assert not os.path.exists(os.path.join(work, "escaped"))


def test_a_look_cannot_change_the_image(image, work):
    assert intrude(work, "e2fsck", "+", "fsck", image)["image"] in REFUSED


def test_without_the_sandbox_tools_get_out(image, work):
    found = intrude(work, "e2fsck", "+", "--no-sandbox", "fsck", image)
    calls = {name: found.pop(name) for name in refused_calls(packs=False)}
    if not host.IS_ROOT:
        for name in ("first", "disk"):
            assert found.pop(name) == -errno.EPERM, name
    assert set(found.values()) == {0}
    for name in ("call_io_uring_setup", "call_ptrace", "call_unshare", "call_socket", "clone_user"):
        assert calls[name] != -errno.EPERM, name


# ---- hosts that have less, and what a process has ----


def lacking(log: str, call: str, error: str) -> tuple:
    """A prefix for a host without this system call. Programs that start are in the log."""
    if host.run("strace", "-o", "/dev/null", "true", ok=None).returncode != 0:
        pytest.skip("this host does not let strace trace")
    return ("strace", "-f", "-qq", "-o", log, "-e", f"trace={call},execve", "-e",
            f"inject={call}:error={error}")


@pytest.mark.needs("strace")
def test_a_host_without_seccomp(image, work):
    for words in (("ls", f"{image}:/"), ("cp", "-r", f"{image}:/lost+found", f"{work}/copy")):
        done = program.good(*words, prefix=lacking(f"{work}/log", "seccomp", "EINVAL"),
                            notes=["this host has no seccomp: the sandbox is not closed"])
        assert done.err


@pytest.mark.needs("strace", "qemu-img")
def test_a_host_without_landlock(image, work):
    """No image is converted there. Tools for raw images run without that layer, and nothing is
    said.
    """
    prefix = lacking(f"{work}/log", "landlock_create_ruleset", "EOPNOTSUPP")
    for kind in ("vmdk", "vdi", "vhdx"):
        host.run("qemu-img", "convert", "-f", "raw", "-O", kind, image, f"{work}/disk.{kind}")
        program.bad("ls", f"{work}/disk.{kind}:/", prefix=prefix,
                    mentions=("no Landlock", "convert the image yourself"))
        with open(f"{work}/log", encoding="utf-8") as stream:
            assert "qemu-img" not in stream.read()
    done = program.good("fsck", image, prefix=prefix)
    with open(f"{work}/log", encoding="utf-8") as stream:
        assert "e2fsck" in stream.read()
    assert "Landlock" not in done.err + program.good("ls", f"{image}:/", prefix=prefix).err


def readers(path: str) -> dict:
    """Processes that have this file open: what else each of them has open."""
    found = {}
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            names = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{process}/fd")
                     if int(entry.name) > 2]
            if path in names:
                found[int(process)] = names
    return found


@pytest.mark.needs("strace")
def test_an_archive_is_read_by_a_process_that_has_little_else(work):
    """Before a file system is made, its size is found from the archive's contents. The process has
    the archive, and neither the new image nor the one that this replaces.
    """
    os.mkdir(f"{work}/tree")
    for name in "abc":
        open(f"{work}/tree/{name}", "w").close()
    host.run("tar", "-C", f"{work}/tree", "-cf", f"{work}/all.tar", ".")
    lacking(f"{work}/log", "getpid", "ENOSYS")  # skips
    images.make(f"{work}/new.img", "ext4")
    # The first reader stops for two seconds, before it has the first byte.
    command = ["strace", "-f", "-qq", "-o", f"{work}/log", "-P", f"{work}/all.tar",
               "-e", "trace=read,pread64,readv", "-e",
               "inject=read,pread64,readv:delay_enter=2000000:when=1",
               *program.command("mkfs", "ext4", f"{work}/new.img", "--from", f"{work}/all.tar",
                                "--force")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as running:
        (reader, names), = wait_until(lambda: readers(f"{work}/all.tar"), "it is read").items()
        with open(f"/proc/{reader}/status", encoding="utf-8") as stream:
            status = stream.read()
        assert running.wait() == 0
    assert "\nSeccomp:\t2\n" in status and "\nNoNewPrivs:\t1\n" in status
    files = [name for name in set(names) - {os.devnull} if name[0] == "/"
             and "/kernel-warnings-" not in name and not name.endswith(" (deleted)")]
    assert files == [f"{work}/all.tar"], names


# ---- outboard hub ----


@pytest.fixture(name="intruder", scope="module")
def built_intruder(tmp_path_factory):
    target = str(tmp_path_factory.mktemp("intruder") / "hub_intruder.so")
    host.run("gcc", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", "-o", target,
             os.path.join(HERE, "hub_intruder.c"))
    return target


def intrude_hub(work, intruder, *words) -> dict:
    """Runs `outboard hub` with an intruder in its server, as a front-end may become one. Returns
    the result of each attempt.
    """
    path, bell = os.path.join(work, "socket"), os.path.join(work, "bell")
    open(os.path.join(work, "kept"), "w").close()
    with open(bell, "wb") as stream:
        stream.truncate(4096)
    with open(bell, "r+b") as given, subprocess.Popen(
            program.command(*words, "hub", os.path.join(work, "hub"), path), cwd=work,
            stdin=given, stderr=subprocess.PIPE, text=True,
            env=host.environment(LD_PRELOAD=intruder)) as running:
        lines = []
        wait_until(lambda: host.listens(path), "the server listens")
        with socket.socket(socket.AF_UNIX) as front_end:
            front_end.connect(path)
            front_end.sendall(b"x")
            while not lines or "opener_unknown" not in lines[-1]:
                lines.append(running.stderr.readline())
                assert lines[-1], lines
        running.terminate()
        assert running.wait() == 128 + signal.SIGTERM
    assert not os.path.exists(path)
    return {name: int(result)
            for name, result in re.findall(r"escape: (\w+) (-?\d+)$", "".join(lines),
                                           re.MULTILINE)}


def test_a_virtual_machine_cannot_get_out_of_the_hub(work, intruder):
    """Nor does the process outside open for it what is no memory of a hub."""
    found = intrude_hub(work, intruder)
    assert found.pop("alive") == 1
    assert found.pop("opener_first") in (*REFUSED, -errno.EINVAL)
    for name in ("input", "error", "unknown"):
        assert found.pop(f"opener_{name}") == -errno.EINVAL, name
    assert len(found) == 17
    assert {name: result for name, result in found.items() if result not in REFUSED} == {}
    assert not os.path.exists(os.path.join(work, "escaped"))
    assert os.path.exists(os.path.join(work, "kept"))


def test_without_the_sandbox_it_gets_out_of_the_hub(work, intruder):
    found = intrude_hub(work, intruder, "--no-sandbox")
    for name in ("open", "openat", "create", "socket", "bind", "listen", "unix_socket",
                 "netlink_socket", "datagrams", "shared_memory", "fork"):
        assert found[name] >= 0, name
    assert found["unlink"] == found["kill"] == 0 and found["process_vm_readv"] == 1
    assert found["execve"] == -errno.ENOENT
    assert found["opener_input"] == found["opener_unknown"] == -errno.EINVAL


@pytest.mark.parametrize("whom", [os.kill, os.killpg], ids=["the command", "all, as by Ctrl-C"])
def test_interrupts_reach_the_kernel(work, whom):
    """mkfs stops in the middle of filling, says so, and leaves nothing behind."""
    with subprocess.Popen(program.command("mkfs", "ext4", f"{work}/new.ext4", "--from",
                                          "/usr", "--size", "32G"), stderr=subprocess.PIPE,
                          start_new_session=True) as running:
        wait_until(lambda: blocks_open_below(running.pid, work) > 50_000,
                   "the new file system is being filled")
        whom(running.pid, signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 130 and b"interrupted" in said, said
    assert os.listdir(work) == []


def test_the_kernel_crashes_beside_a_command(drivers, image, work):
    """A file system that ends the process in which the kernel runs ends no more than that."""
    before = os.listdir(work)
    done = program.run("--component", os.path.join(drivers, "crash.ko"),
                       "--type", "crash", "mkfs", "ext4", f"{work}/new.ext4",
                       "--from", program.REPOSITORY + "/tests/program/sandbox")
    assert done.kernel_bug, str(done)
    assert os.listdir(work) == before


def test_kernel_code_cannot_get_out_of_run(component, image, work):
    """Although its process has one that makes processes: tests/library attacks that."""
    check_shut_in(attempts(component, "run", image, "--", "true", cwd=work, code=125))
    assert not os.path.exists(os.path.join(work, "escaped"))


def test_without_the_sandbox_it_gets_out(component, image, work):
    """So the attempts are real."""
    found = attempts(component, "--no-sandbox", "ls", f"{image}:/", cwd=work)
    for name in ("open", "openat", "create", "socket", "bind", "listen", "udp_socket",
                 "netlink_socket", "unix_socket", "memfd_create", "shared_memory", "fork"):
        assert found[name] >= 0, name
    assert found["unlink"] == 0
    assert not os.path.exists(os.path.join(work, "kept"))
    assert found["execve"] == -errno.ENOENT


def test_no_sandbox_is_said(image):
    done = program.run("--no-sandbox", "ls", f"{image}:/")
    assert done.code == 0
    assert "NO SANDBOX" in done.err
    assert program.good("ls", f"{image}:/").out == done.out


def statuses(process) -> list:
    """/proc/PID/status of each thread."""
    found = []
    for thread in os.listdir(f"/proc/{process.pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(
                f"/proc/{process.pid}/task/{thread}/status", encoding="ascii") as lines:
            found.append(dict(re.findall(r"^(\w+):\s*(.*)$", lines.read(), re.MULTILINE)))
    return found


def memory_limit(process) -> int:
    with open(f"/proc/{process.pid}/limits", encoding="ascii") as lines:
        return int(re.search(r"^Max data size +(\d+) ", lines.read(), re.MULTILINE)[1])


def namespaces(pid) -> dict:
    return {kind: os.readlink(f"/proc/{pid}/ns/{kind}") for kind in ("user", "ipc", "uts")}


def test_all_threads_have_given_up_their_rights(image, work):
    """While a large file is written to a pipe that nobody reads."""
    big = os.path.join(work, "big")
    images.write_noise(big, 8)
    program.good("cp", big, f"{image}:/")
    with subprocess.Popen(program.command("cat", f"{image}:/big"),
                          stdout=subprocess.PIPE) as process:
        assert process.stdout.read(65536)
        threads = wait_until(lambda: len(found := statuses(process)) > 2 and found,
                             "there are threads")
        assert memory_limit(process) == 4 << 30
        apart, ours = namespaces(process.pid), namespaces("self")
        process.kill()
    if host.IS_ROOT:
        assert all(apart[kind] != ours[kind] for kind in ours), apart
    for thread in threads:
        assert thread["Seccomp"] == "2", thread["Name"]
        assert thread["Seccomp_filters"] == "3", thread["Name"]
        assert thread["NoNewPrivs"] == "1", thread["Name"]
        for kind in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
            assert int(thread[kind], 16) == 0, thread["Name"]


def test_the_log_reaches_a_socket(image):
    """As of a service whose standard error is the journal's. The sandbox refuses sendmsg(2)."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        done = subprocess.run(program.command("ls", f"{image}:/"), stdout=subprocess.PIPE,
                              stderr=theirs, env=host.environment(OUTBOARD_LOG="info"), check=True)
        ours.setblocking(False)
        assert b"Linux version" in ours.recv(1 << 20) and b"lost+found" in done.stdout


def test_what_the_starter_has_open_is_closed(image, work):
    """Code inside gets no file that this process was given besides the standard streams."""
    big, secret = os.path.join(work, "big"), os.path.join(work, "secret")
    images.write_noise(big, 8)
    program.good("cp", big, f"{image}:/")
    command = program.command("cat", f"{image}:/big")
    with (open(secret, "wb") as given,
          subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=(given.fileno(),)) as process):
        assert process.stdout.read(65536)
        directory = f"/proc/{process.pid}/fd"
        opened = [os.readlink(f"{directory}/{number}") for number in os.listdir(directory)]
        process.kill()
    assert image in opened and secret not in opened


def test_tools_get_nothing_that_the_starter_has_open(image, work):
    programs, secret = os.path.join(work, "programs"), os.path.join(work, "secret")
    os.mkdir(programs)
    with open(f"{programs}/e2fsck", "w", encoding="ascii") as stream:
        stream.write("#!/usr/bin/python3\nimport os\n"
                     "for number in range(100):\n    try: print('open:', os.fstat(number).st_ino, "
                     "flush=True)\n    except OSError: pass\n")
    os.chmod(f"{programs}/e2fsck", 0o755)
    with open(secret, "wb") as given:
        done = subprocess.run(program.command("fsck", image), pass_fds=(given.fileno(),),
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": f"{programs}:{host.PATH}"})
        inode = os.fstat(given.fileno()).st_ino
    opened = [int(number) for number in re.findall(r"^open: (\d+)$", done.stdout, re.MULTILINE)]
    assert len(opened) >= 3 and inode not in opened, done.stdout + done.stderr


@pytest.mark.needs_root
def test_root_opens_images_of_others(work):
    """Before it gives up the right to."""
    image = images.make(os.path.join(work, "others.ext4"), "ext4", 32)
    os.chown(image, 12345, 12345)
    os.chmod(image, 0o600)
    program.good("cp", __file__, f"{image}:/file")
    assert program.good("cat", f"{image}:/file").raw == open(__file__, "rb").read()
    images.check_ext4(image)


@pytest.mark.needs_root
@pytest.mark.needs("setpriv")
def test_a_user_without_rights(work):
    """Also one whose home directory is not there."""
    image = images.make(os.path.join(work, "mine.ext4"), "ext4", 32)
    os.chown(image, 12345, 12345)
    user = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups")
    done = program.run("cp", "/etc/hostname", f"{image}:/", prefix=user,
                       HOME="/nonexistent", XDG_CACHE_HOME="")
    assert done.code == 0, str(done)
    done = program.run("cat", f"{image}:/hostname", prefix=user, HOME="/nonexistent",
                       XDG_CACHE_HOME="")
    assert done.raw == open("/etc/hostname", "rb").read(), str(done)


def test_a_snapshot_is_used_and_made_inside(image, work):
    """The first run leaves one in the cache directory, the second one changes nothing there."""
    cache = os.path.join(work, "cache")
    os.mkdir(cache, 0o700)
    for _ in range(2):
        program.good("ls", f"{image}:/", XDG_CACHE_HOME=cache)
    found = {name: os.stat(os.path.join(cache, "outboard", name)).st_ino
             for name in os.listdir(os.path.join(cache, "outboard"))}
    assert any(name.endswith(".snapshot") for name in found)
    program.good("ls", f"{image}:/", XDG_CACHE_HOME=cache)
    assert found == {name: os.stat(os.path.join(cache, "outboard", name)).st_ino
                     for name in os.listdir(os.path.join(cache, "outboard"))}


def test_a_copy_does_not_write_to_the_cache(image, work):
    """It goes on opening files, and could leave something for the next one to start from."""
    cache, target = os.path.join(work, "cache"), os.path.join(work, "target")
    os.mkdir(cache, 0o700)
    os.mkdir(target)
    program.good("cp", "-a", f"{image}:/", target, XDG_CACHE_HOME=cache)
    assert os.listdir(os.path.join(cache, "outboard")) == []
