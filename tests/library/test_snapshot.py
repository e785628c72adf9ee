# SPDX-License-Identifier: GPL-2.0-only
"""Snapshots: saved once, started from often; and everything because of which one is not used."""

import os
import shutil
import struct
import subprocess
import time

import pytest
from support import debugger, host, modules
# `image` is a fixture.
from test_capi import (HERE, LIBRARIES, REPOSITORY, check_ext4, compile_c, image,  # noqa: F401
                       pkg_config, run)

# Where the program of the command line is linked to, too.
FIXED = ["-no-pie", "-Wl,-Ttext-segment=0x40000000"]


def static_flags():
    return [
        *pkg_config("--cflags"),
        os.path.join(LIBRARIES, "liboutboard.a"), "-Wl,--whole-archive",
        os.path.join(LIBRARIES, "liboutboard-components.a"), "-Wl,--no-whole-archive"
    ]


def fixed_program(directory, name):
    return compile_c(os.path.join(directory, name), [f"{name}.c", "client.c"], *FIXED,
                     *static_flags())


@pytest.fixture(name="program", scope="module")
def fixture_program(tmp_path_factory):
    return fixed_program(str(tmp_path_factory.mktemp("snapshot")), "snapshot_test")


@pytest.fixture(name="cache")
def fixture_cache(work):
    directory = os.path.join(work, "cache")
    os.mkdir(directory, 0o700)
    return directory


def start(program, cache, *arguments, **variables) -> dict:
    """The output of the program, by the first word of each line."""
    lines = run(program, *map(str, arguments), SNAPSHOTS=cache, **variables).splitlines()
    return dict(line.split(maxsplit=1) for line in lines if " " in line)


def snapshots(cache) -> list:
    """Without the notes that their checksums were right."""
    names = [name for name in os.listdir(cache) if not name.endswith(".checked")]
    assert all(name.endswith(".snapshot") for name in names), names
    return names


def the_file(cache) -> str:
    names = snapshots(cache)
    assert len(names) == 1, names
    return os.path.join(cache, names[0])


def test_saved_then_started_from(program, cache):
    assert "not used: there was none; saved as" in start(program, cache)["snapshot:"]
    path = the_file(cache)
    status = os.stat(path)
    assert status.st_mode & 0o777 == 0o600
    for _ in range(3):
        assert start(program, cache)["snapshot:"] == f"started from {os.path.basename(path)}"
    assert os.stat(path).st_mtime_ns == status.st_mtime_ns


@pytest.mark.parametrize("vcpus", [1, 4, 16, 64])
def test_vcpus(program, cache, vcpus):
    for expected in ("saved as", "started from", "started from"):
        assert expected in start(program, cache, vcpus)["snapshot:"]


def test_a_hundred_starts_have_a_hundred_random_streams(program, cache):
    seen = [start(program, cache, 2, "random") for _ in range(101)]
    assert sum("started from" in one["snapshot:"] for one in seen) == 100
    for what in ("random", "boot-id"):
        assert len({one[what] for one in seen}) == 101


def age(path):
    """Until it is known that the file has not changed since: two seconds."""
    while time.time() < os.stat(path).st_ctime + 3:
        time.sleep(0.2)


def test_unused_ones_go(program, cache):
    old = time.time() - 31 * 24 * 3600
    names = [
        "0123456789abcdef.snapshot", "0123456789abcdef.snapshot.checked",
        ".0123456789abcdef.snapshot.fedcba9876543210"
    ]
    kept = ["mine.snapshot", "0123456789abcdef.txt"]
    for name in [*names, *kept]:
        path = os.path.join(cache, name)
        with open(path, "wb"):
            pass
        os.utime(path, (old, old))
    start(program, cache)
    assert sorted(set(os.listdir(cache)) & {*names, *kept}) == sorted(kept)


def test_age_is_not_seen(program, cache):
    start(program, cache)
    time.sleep(2)
    assert "started from" in start(program, cache)["snapshot:"]


def test_components_are_in_it(program, cache):
    assert "saved as" in start(program, cache, COMPONENTS="ext4 xfs")["snapshot:"]
    assert "started from" in start(program, cache, COMPONENTS="ext4 xfs")["snapshot:"]
    assert "saved as" in start(program, cache, COMPONENTS="ext4")["snapshot:"]
    assert len(snapshots(cache)) == 2


def test_unknown_component(program, cache):
    for _ in range(2):
        run(program, SNAPSHOTS=cache, COMPONENTS="ext4 nonsense", ok=1)
    assert os.listdir(cache) == []


def damage(path, offset):
    with open(path, "r+b") as stream:
        stream.seek(offset)
        byte = stream.read(1)
        stream.seek(offset)
        stream.write(bytes([byte[0] ^ 1]))


def truncate(path, size):
    with open(path, "r+b") as stream:
        stream.truncate(size)


def replace_by_link(path):
    os.rename(path, f"{path}.other")
    os.symlink(f"{path}.other", path)


SPOILERS = {
    "magic": lambda path: damage(path, 3),
    "checksum": lambda path: damage(path, 25),
    "key": lambda path: damage(path, 230),
    "last page": lambda path: damage(path, os.path.getsize(path) - 100),
    "middle": lambda path: damage(path, os.path.getsize(path) // 2),
    "empty": lambda path: truncate(path, 0),
    "short": lambda path: truncate(path, os.path.getsize(path) - 4096),
    "long": lambda path: truncate(path, os.path.getsize(path) + 4096),
    "huge": lambda path: truncate(path, 4 << 30),
    "readable by others": lambda path: os.chmod(path, 0o644),
    "link": replace_by_link,
}


@pytest.mark.parametrize("what", SPOILERS)
def test_spoilt_ones_are_replaced(program, cache, what):
    start(program, cache)
    path = the_file(cache)
    # The checksum is noted as right, but for what is no more.
    age(path)
    assert "started from" in start(program, cache)["snapshot:"]
    assert os.path.exists(f"{path}.checked")
    SPOILERS[what](path)
    told = start(program, cache)["snapshot:"]
    assert told.startswith("not used: ") and "saved as" in told
    if what == "link":
        os.unlink(f"{path}.other")
    assert not os.path.islink(the_file(cache))
    assert "started from" in start(program, cache)["snapshot:"]


@pytest.mark.needs_root
def test_another_users_file_is_not_mapped(program, cache):
    start(program, cache)
    os.chown(the_file(cache), 65534, 65534)
    assert "not used: it is not the user's own" in start(program, cache)["snapshot:"]
    assert "started from" in start(program, cache)["snapshot:"]


def test_fifo_does_not_block(program, cache):
    start(program, cache)
    path = the_file(cache)
    os.unlink(path)
    os.mkfifo(path, 0o600)
    assert "saved as" in start(program, cache)["snapshot:"]


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_directory_that_others_write_to(program, cache, mode):
    os.chmod(cache, mode)
    assert "not used: the directory" in start(program, cache)["snapshot:"]
    assert os.listdir(cache) == []


@pytest.mark.needs("unshare")
@pytest.mark.needs_root
def test_directory_without_execution(work, program, cache):
    """A home directory that is mounted noexec: nothing can be mapped from there to be executed."""
    script = (f'mount -t tmpfs -o noexec,mode=700 none "{cache}" && for i in 1 2; do '
              f'COMPONENTS=ext4 SNAPSHOTS="{cache}" "{program}"; done')
    told = run("unshare", "--mount", "sh", "-c", script)
    assert told.count("not used: the directory's file system is mounted noexec") == 2


def ram_of(path) -> int:
    with open(path, "rb") as stream:
        return struct.unpack_from("<Q", stream.read(72), 64)[0]


def test_address_that_is_taken(program, cache):
    """The snapshot that replaces it is where other processes are likely to have nothing, too."""
    start(program, cache)
    before = ram_of(the_file(cache))
    told = start(program, cache, TAKEN=f"{before:x}")["snapshot:"]
    assert "not used: its addresses are not free in this process; saved as" in told
    after = ram_of(the_file(cache))
    # hypercall/posix/address_space.c, PLACE_FIRST and PLACE_RANGE; other regions may be before it.
    assert before != after and all(48 << 40 <= ram < 65 << 40 for ram in (before, after))
    assert "started from" in start(program, cache)["snapshot:"]


def note_as_right(path):
    """The library's note of a file whose checksum was right:
    hypercall/posix/snapshot/snapshot.h, struct ob_snapshot_note.
    """
    status = os.stat(path)
    with open("/proc/sys/kernel/random/boot_id", "rb") as stream:
        host = stream.read()
    seconds, nanoseconds = divmod(status.st_ctime_ns, 10**9)
    with open(f"{path}.checked", "wb",
              opener=lambda name, flags: os.open(name, flags, 0o600)) as stream:
        stream.write(
            struct.pack("<5Q40s", status.st_dev, status.st_ino, status.st_size, seconds,
                        nanoseconds, host))


def test_what_cannot_be_mapped_is_booted(program, cache):
    """The host refuses a piece of RAM, when much is mapped already: here, because of where it is in
    the file.
    """
    start(program, cache)
    path = the_file(cache)
    with open(path, "r+b") as stream:
        content = stream.read()
        key_size, count = struct.unpack_from("<2Q", content, 40)
        ram, size = struct.unpack_from("<2Q", content, 64)
        table = [176 + key_size + 40 * number for number in range(count)]
        last = next(entry for entry in reversed(table)
                    if ram <= struct.unpack_from("<Q", content, entry)[0] < ram + size)
        offset, = struct.unpack_from("<Q", content, last + 16)
        stream.seek(last + 16)
        stream.write(struct.pack("<Q", offset - 1))
    note_as_right(path)
    assert "not used: it cannot be mapped: Invalid argument; saved as" in start(program,
                                                                                cache)["snapshot:"]
    assert "started from" in start(program, cache)["snapshot:"]


@pytest.mark.needs("setpriv")
@pytest.mark.needs_root
def test_more_rights_than_the_caller(work, program, cache):
    """The program is setgid: its caller's file could be mapped with the rights of the group."""
    copy = os.path.join(work, "setgid")
    shutil.copyfile(program, copy)
    os.chown(copy, 0, 6)
    os.chmod(copy, 0o2755)
    os.chown(cache, 65534, 65534)
    for directory in (work, os.path.dirname(work)):
        os.chmod(directory, 0o755)
    told = run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", copy, SNAPSHOTS=cache)
    assert "not used: the program has more rights" in told


def test_component_of_a_snapshot_is_unloaded(work, cache):
    program = fixed_program(work, "unload_test")
    for expected in ("saved as", "started from", "started from"):
        assert expected in run(program, SNAPSHOTS=cache, COMPONENTS="ext4 xfs btrfs")


@pytest.mark.parametrize("who", ["main", "thread"])
def test_blocked_signals(work, cache, who):
    program = fixed_program(work, "blocked_test")
    for expected in ["saved as"] + ["started from"] * 20:
        assert expected in run(program, who, SNAPSHOTS=cache, COMPONENTS="ext4")


def test_directory_that_is_missing(program, cache):
    assert "not used: the directory" in start(program, os.path.join(cache, "nowhere"))["snapshot:"]


def test_switched_off(program, cache):
    assert "OUTBOARD_SNAPSHOT" in start(program, cache, OUTBOARD_SNAPSHOT="off")["snapshot:"]
    assert "log" in start(program, cache, OUTBOARD_LOG="info")["snapshot:"]
    assert os.listdir(cache) == []


@pytest.mark.skipif("avx2" not in host.processor_features(), reason="the processor has no AVX2")
def test_a_host_that_enables_fewer_features(program, cache):
    """As a host that does not save all vector registers looks to the C library."""
    start(program, cache)
    fewer = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2"}
    assert "saved as" in start(program, cache, **fewer)["snapshot:"]
    assert "started from" in start(program, cache, **fewer)["snapshot:"]
    assert len(snapshots(cache)) == 2


def test_another_program_does_not_use_it(work, program, cache):
    start(program, cache)
    other = fixed_program(work, "refused_test")
    assert "saved as" in start(other, cache)["snapshot:"]
    assert len(snapshots(cache)) == 2


LOADER = """
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments)
{
	void *plugin = dlopen("./plugin.so", RTLD_NOW);
	int (*run)(int, char **) = plugin ? dlsym(plugin, "program_main") : NULL;

	if (!run)
		fprintf(stderr, "%s", dlerror());
	return run ? run(count, arguments) : 1;
}
"""


def build_fixed(directory, source):
    return fixed_program(directory, source[:-2])


def build_pie(directory, source):
    return compile_c(os.path.join(directory, "program"), [source, "client.c"], "-fPIE", "-pie",
                     *static_flags())


def build_shared(directory, source):
    return compile_c(os.path.join(directory, "program"), [source, "client.c"],
                     *pkg_config("--cflags", "--libs"))


def build_plugin(directory, source):
    compile_c(os.path.join(directory, "plugin.so"), [source, "client.c"], "-shared",
              "-fPIC", "-Dmain=program_main", *pkg_config("--cflags", "--libs"))
    loader = os.path.join(directory, "loader.c")
    with open(loader, "w", encoding="ascii") as stream:
        stream.write(LOADER)
    return compile_c(os.path.join(directory, "program"), [loader])


BUILDS = [build_fixed, build_pie, build_shared, build_plugin]


@pytest.mark.parametrize("build", BUILDS)
def test_program_of_each_kind(work, cache, build, monkeypatch):
    program = build(work, "snapshot_test.c")
    monkeypatch.chdir(work)
    for expected in ("saved as", "started from", "started from"):
        said = start(program, cache, LD_LIBRARY_PATH=LIBRARIES, COMPONENTS="ext4")
        assert expected in said["snapshot:"]


@pytest.mark.parametrize("build", BUILDS)
def test_each_instance_of_a_program(work, cache, build, monkeypatch):
    """Several kernels of one process, whose threads boot them in any order."""
    program = build(work, "instance_test.c")
    monkeypatch.chdir(work)
    for number, status in ((2, "saved as"), (2, "started from"), (2, "started from")):
        run(program, "several", cache, status, str(number), LD_LIBRARY_PATH=LIBRARIES)
    assert len(snapshots(cache)) == 2


def test_sixteen_instances(work, cache):
    program = build_shared(work, "instance_test.c")
    for status in ("saved as", "started from", "started from"):
        run(program, "several", cache, status, "16", LD_LIBRARY_PATH=LIBRARIES)
    assert len(snapshots(cache)) == 16


def test_another_archive_of_components(work, cache):
    program, archive = build_shared(work, "snapshot_test.c"), os.path.join(work, "archive")
    variables = {"LD_LIBRARY_PATH": LIBRARIES, "OUTBOARD_COMPONENTS": archive, "COMPONENTS": "ext4"}
    for count in (1, 2):
        shutil.copy(os.path.join(LIBRARIES, "outboard-components"), archive)
        for expected in ("saved as", "started from"):
            assert expected in start(program, cache, **variables)["snapshot:"]
        assert len(snapshots(cache)) == count


def test_many_at_once(program, cache):
    for _ in range(2):
        all_of_them = [
            subprocess.Popen([program], env={**os.environ, "SNAPSHOTS": cache},
                             stdout=subprocess.DEVNULL) for _ in range(12)
        ]
        assert [one.wait(timeout=120) for one in all_of_them] == [0] * 12
    the_file(cache)
    assert "started from" in start(program, cache)["snapshot:"]


@pytest.mark.parametrize("name,arguments", [("threads_test", ("2", "2000")),
                                            ("signals_test", ("2", )), ("interrupt_test", ()),
                                            ("kernel_signals_test", ()), ("exit_race_test", ()),
                                            ("fork_test", ()), ("fork_test", ("_Fork", )),
                                            ("process_test", ("2", )),
                                            ("efault_test", ())])
def test_programs_that_start_from_one(work, cache, name, arguments):
    program = fixed_program(work, name)
    for expected in ("saved as", "started from"):
        assert expected in run(program, *arguments, SNAPSHOTS=cache, timeout=300)


def test_saved_at_any_moment(work):
    """At some, the tick is due: then kernel threads run in the start, before the vCPU has threads
    of the host.
    """
    program = fixed_program(work, "late_threads_test")
    for number in range(25):
        cache = os.path.join(work, f"cache{number}")
        os.mkdir(cache, 0o700)
        for expected in ("saved as", "started from"):
            assert expected in run(program, "100", SNAPSHOTS=cache, timeout=60)


def test_a_host_without_threads_for_a_while(work, cache):
    program = fixed_program(work, "late_threads_test")
    assert "saved as" in run(program, "100", SNAPSHOTS=cache)
    output = run(program, "1", SNAPSHOTS=cache)
    assert "started from" in output and "refused: 20" in output, output


def test_a_host_without_threads(work, cache):
    """The boot is refused; calls of another thread never see the kernel that does not start."""
    run(build_shared(work, "no_thread_test.c"), cache, LD_LIBRARY_PATH=LIBRARIES)


@pytest.mark.needs("gdb")
def test_numbers_of_boots_do_not_repeat(work, cache):
    """After 65,535 more boots, which gdb leaves out."""
    program, script = build_shared(work, "boot_number_test.c"), os.path.join(work, "script")
    with open(script, "w", encoding="ascii") as stream:
        stream.write("set breakpoint pending on\n"
                     "handle all nostop noprint pass\n"
                     "break leave_out_boots\n"
                     "run\n"
                     "set var last_boot = last_boot + 65535\n"
                     "continue\n")
    said = debugger.run_script(script, program, LD_LIBRARY_PATH=LIBRARIES, SNAPSHOTS=cache)
    assert "\ntwo tasks\n" in said, said


def archive_of(work, name):
    """An archive that has one component, of a directory of this one."""
    directory, archive = os.path.join(work, name), os.path.join(work, "archive")
    os.mkdir(directory)
    modules.build(os.path.join(HERE, name), directory)
    host.run("python3", os.path.join(REPOSITORY, "kernel", "build", "components.py"), directory,
             archive)
    return archive


def test_a_kernel_that_never_idles(work, cache):
    """It cannot be saved, and is used all the same."""
    program = build_shared(work, "busy_test.c")
    assert "not saved: " in run(program, SNAPSHOTS=cache, COMPONENTS="busy", timeout=120,
                                LD_LIBRARY_PATH=LIBRARIES,
                                OUTBOARD_COMPONENTS=archive_of(work, "busy"))
    assert not snapshots(cache)


@pytest.mark.kernel_reports("its clock jumps")
def test_a_component_that_never_starts(work):
    program = build_shared(work, "endless_test.c")
    said = run(program, timeout=120, LD_LIBRARY_PATH=LIBRARIES,
               OUTBOARD_COMPONENTS=archive_of(work, "endless"))
    assert 'or a component of "endless"' in said, said


@pytest.mark.long
def test_a_spare_interface_without_its_driver(work, cache):
    """Each boot that is to be saved tries to make one. The host's devices do not run out."""
    program = build_shared(work, "spare_failure_test.c")
    run(program, cache, LD_LIBRARY_PATH=LIBRARIES, OUTBOARD_COMPONENTS=archive_of(work, "busy"))


def test_a_leader_that_sleeps_while_it_renews_the_kernel(work, cache):
    """The calls wait for the leader. Where the host has no thread, the boot is refused."""
    archive = archive_of(work, "held_lock")
    program = build_shared(work, "renewal_test.c")
    for expected, words in (("saved as", ()), ("started from", ()), ("started from", (cache, ))):
        assert expected in run(program, *words, SNAPSHOTS=cache, COMPONENTS="held_lock", timeout=60,
                               LD_LIBRARY_PATH=LIBRARIES, OUTBOARD_COMPONENTS=archive)


def test_disks(work, cache, image):
    program = fixed_program(work, "memory_test")
    for expected in ("saved as", "started from"):
        copy = os.path.join(work, "copy.img")
        shutil.copyfile(image, copy)
        assert expected in run(program, copy, SNAPSHOTS=cache, COMPONENTS="ext4")
        check_ext4(copy)
