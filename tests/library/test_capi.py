# SPDX-License-Identifier: GPL-2.0-only
"""The C API, by C programs that use nothing else, and the POSIX platform below it, without a
kernel.

Each program says what failed and where, and ends with 1. The library is found through OUTBOARD_OUT.
"""

import glob
import os
import re
import shutil
import subprocess

import pytest

from support import c_programs, host, images, modules, programs
from support import program as the_program

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(HERE))
OUT = os.path.abspath(os.environ.get("OUTBOARD_OUT") or os.path.join(REPOSITORY, "out"))
LIBRARIES = os.path.join(OUT, "lib")
PLATFORM = os.path.join(REPOSITORY, "hypercall", "posix")
DEVICES = os.path.join(REPOSITORY, "devices")
FLAGS = c_programs.FLAGS

SANITIZERS = {
    "plain": [],
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
    "thread": ["-fsanitize=thread"],
}
# The same checks without a sanitizer; the library of the build is compiled so.
PLAIN = pytest.param("plain", marks=pytest.mark.long)


def run(*command, timeout=300, ok=0, **variables):
    """Runs a program. It must end with `ok`; what it said is shown otherwise. Returns its output.
    """
    environment = {
        **os.environ, **{name: value
                         for name, value in variables.items() if value is not None}
    }
    environment["PATH"] += ":/usr/sbin:/sbin"
    done = subprocess.run(command, env=environment, capture_output=True, text=True,
                          errors="replace", timeout=timeout, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == ok, (f"{os.path.basename(command[0])} ended with {done.returncode}\n"
                                   f"{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def compile_c(target, sources, *flags):
    run("gcc", *FLAGS, "-o", target, *(os.path.join(HERE, source) for source in sources), *flags)
    return target


def platform_sources():
    return sorted(
        glob.glob(os.path.join(PLATFORM, "*.c"))
        + glob.glob(os.path.join(PLATFORM, "snapshot", "*.c"))
        + glob.glob(os.path.join(PLATFORM, "space", "*.[cS]")))


def platform_program(directory, sources, sanitizer, *flags):
    files = [*sources, "mock_kernel.c", *platform_sources()]
    return compile_c(os.path.join(directory, "program"), files,
                     "-I", PLATFORM, "-I", os.path.join(REPOSITORY, "hypercall", "include"),
                     *SANITIZERS[sanitizer], *flags)


@pytest.mark.parametrize("sanitizer", [PLAIN, "address"])
def test_platform(work, sanitizer):
    sources = ("platform_test.c", *(f"platform_{name}.c" for name in ("bed", "memory", "signals")))
    program = platform_program(work, sources, sanitizer)
    run(program)
    run(program, "absent", ok=2)


def block_program(directory, sanitizer):
    sources = ("block_test.c", *(f"block_{name}.c" for name in ("bed", "open", "durable")))
    return platform_program(directory, sources, sanitizer, "-Wl,--wrap=syscall")


@pytest.mark.parametrize("sanitizer", [PLAIN, "address", "thread"])
def test_platform_block(work, sanitizer):
    run(block_program(work, sanitizer), work)


@pytest.mark.needs("losetup")
@pytest.mark.needs_root
def test_platform_block_device(work):
    image = os.path.join(work, "device.img")
    with open(image, "wb") as stream:
        stream.truncate(4 << 20)
    program = block_program(work, "plain")
    with host.loop_device(image, "--sector-size", "4096") as device:
        run(program, work, device)


def pkg_config(*arguments):
    return run("pkg-config", *arguments, "outboard",
               PKG_CONFIG_PATH=os.path.join(LIBRARIES, "pkgconfig")).split()


def library_program(directory, *sources, compiler="gcc", static=False):
    """A program of this directory, built as a user of the library would."""
    target = os.path.join(directory, os.path.basename(sources[0]).partition(".")[0])
    flags = pkg_config("--cflags", "--libs")
    if static:
        flags = [
            *pkg_config("--cflags"),
            os.path.join(LIBRARIES, "liboutboard.a"), "-Wl,--whole-archive",
            os.path.join(LIBRARIES, "liboutboard-components.a"), "-Wl,--no-whole-archive"
        ]
    run(compiler, *FLAGS, "-o", target, *(os.path.join(HERE, source) for source in sources), *flags)
    return target


def run_library_program(directory, name, *arguments, timeout=300, **variables):
    program = library_program(directory, f"{name}.c", "client.c")
    return run(program, *arguments, timeout=timeout, LD_LIBRARY_PATH=LIBRARIES, **variables)


@pytest.fixture
def image(work):
    """A small ext4 image with a file /hello in it."""
    tree = os.path.join(work, "tree")
    os.mkdir(tree)
    with open(os.path.join(tree, "hello"), "w", encoding="ascii") as stream:
        stream.write("hello from the image\n" * 10000)
    path = os.path.join(work, "disk.img")
    run("mkfs.ext4", "-q", "-d", tree, path, "64M")
    return path


def check_ext4(image):
    run("e2fsck", "-f", "-n", image)


def test_boot(work, image):
    run_library_program(work, "boot_test", image)
    check_ext4(image)
    assert "made-by-boot-test" in run("debugfs", "-R", "ls -p /", image)


def test_served_disk(work, image):
    stable = os.path.join(work, "stable.img")
    run_library_program(work, "served_test", image, stable)
    check_ext4(stable)
    assert "durable" in run("debugfs", "-R", "ls -p /", stable)


def test_requests_are_completed_where_they_were_submitted(work):
    path = os.path.join(work, "disk.img")
    with open(path, "wb") as stream:
        stream.truncate(8 << 20)
    disk = os.path.join("..", "invariants", "model_disk.c")
    program = library_program(work, "disk_interrupt_test.c", "client.c", disk)
    run(program, path, LD_LIBRARY_PATH=LIBRARIES)


@pytest.mark.parametrize("start", ["boot", "snapshot"])
def test_several_disks_under_load(work, start):
    """Direct I/O of 12 threads to four disks on four vCPUs, with fsync and sync."""
    program, cache = library_program(work, "disks_test.c", "client.c"), os.path.join(work, "cache")
    disks = [os.path.join(work, f"{number}.img") for number in range(3)]
    os.mkdir(cache, 0o700)
    for expected in ("saved as", "started from") if start == "snapshot" else (None,):
        for disk in disks:
            with open(disk, "wb"):
                pass
        said = run(program, *disks, timeout=300, LD_LIBRARY_PATH=LIBRARIES,
                   SNAPSHOTS=cache if expected else None)
        assert not expected or expected in said


@pytest.mark.parametrize("does", ["sleep", "turns"])
def test_without_the_service_thread(work, does):
    run_library_program(work, "service_test", does, timeout=600)


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_memory_grows_for_files_that_are_read_again(work, kind):
    """A file that is read once takes little memory. The second reading makes room for it, and
    the third one needs no disk, unless the program wants no memory for files. xfs reads into large
    folios.
    """
    tree = os.path.join(work, "large")
    os.mkdir(tree)
    with open(os.path.join(tree, "large"), "wb") as stream:
        for _ in range(300):
            stream.write(b"x" * (1 << 20))
    path = os.path.join(work, "large.img")
    host.sparse_file(path, 400 << 20)
    run(f"mkfs.{kind}", "-q", path)
    run(the_program.PROGRAM, "cp", os.path.join(tree, "large"), f"{path}:/large")
    program = library_program(work, "recycle_test.c", "client.c")

    def read(times, words="quiet"):
        return map(int, run(program, path, kind, words, str(times),
                            LD_LIBRARY_PATH=LIBRARIES).split())

    resident, from_disk = read(1)
    assert resident < 200 and from_disk >= 300
    resident, from_disk = read(2)
    assert resident >= 300
    resident, from_disk = read(3)
    assert resident >= 300 and from_disk < 100
    resident, from_disk = read(2, "recycle_files")
    assert resident < 200 and from_disk >= 200


def test_a_halt_marks_arrays_as_clean(work):
    members = [os.path.join(work, name) for name in ("one.img", "other.img")]
    for member in members:
        with open(member, "wb") as stream:
            stream.truncate(16 << 20)
    run_library_program(work, "array_test", *members)


@pytest.mark.parametrize("memory, resource, limit, wanted", [
    (64 << 20, "nofile", 3, ["Too many open files: the kernel", "Too many open files"]),
    (64 << 20, "data", 1 << 20, ["Cannot allocate memory:", "data 1024 KB (ulimit -d)"]),
    (64 << 20, "as", 10 << 30, ["space 10485760 KB (ulimit -v), and a kernel needs 101 GB"]),
    (15_000_000, "none", 0, ["memory is 15000000 bytes: a kernel with disks needs 16 MB"]),
])
def test_why_a_kernel_does_not_boot(work, memory, resource, limit, wanted):
    said = run_library_program(work, "boot_limits_test", str(memory), resource, str(limit))
    for text in wanted:
        assert text in said, said


def test_a_component_that_finds_no_memory(work):
    run_library_program(work, "component_memory_test")


@pytest.mark.parametrize("level", [0, 4, 7])
def test_log(work, level):
    run_library_program(work, "log_test", str(level))


@pytest.mark.parametrize("reader", ["pipe", "socket", "terminal", "gone"])
def test_log_that_nobody_reads(work, reader):
    run_library_program(work, "log_reader_test", reader)


def test_closed_standard_descriptors(work, image):
    run_library_program(work, "descriptors_test", image, os.path.join(work, "hub"))
    check_ext4(image)


@pytest.mark.parametrize("vcpus, online, words", [
    (4, 4, "quiet"), (4, 3, "maxcpus=3"), (4, 1, "maxcpus=1"), (1, 1, "quiet")])
def test_vcpus_at_the_first_question(work, vcpus, online, words):
    run_library_program(work, "vcpus_test", str(vcpus), str(online), words)


def test_all_descriptors_are_closed(work, image):
    run_library_program(work, "closed_disk_test", image)


def test_the_library_is_closed(work):
    """dlclose() does not unload it: its hooks stay in the process."""
    program = compile_c(os.path.join(work, "program"), ["dlclose_test.c"], "-I",
                        os.path.join(OUT, "include"))
    run(program, os.path.join(LIBRARIES, "liboutboard.so.0"))


def test_a_disk_is_removed_while_it_is_opened(work, image):
    run_library_program(work, "disk_removal_test", image)


def test_log_goes_to_standard_error_only_when_asked(work):
    program = library_program(work, "refused_test.c", "client.c")
    for wanted, expected in ((None, False), ("info", True), ("7", True)):
        environment = {**os.environ, "LD_LIBRARY_PATH": LIBRARIES}
        environment.pop("OUTBOARD_LOG", None)
        if wanted:
            environment["OUTBOARD_LOG"] = wanted
        done = subprocess.run([program], env=environment, capture_output=True, text=True,
                              timeout=60, check=True)
        assert ("Linux version" in done.stderr) == expected
        assert expected or done.stderr == ""


@pytest.mark.parametrize("when", ["booted", "_Fork", "clone", "prepared"])
def test_fork(work, when):
    run_library_program(work, "fork_test", when)


def test_memory_that_other_hooks_of_fork_map(work):
    run_library_program(work, "fork_hook_test")


def test_data_taken_by_reference(work):
    run_library_program(work, "zerocopy_test")


@pytest.mark.parametrize("how", ["time", "shift", "tick", "frequency"])
def test_wall_clock_of_the_host_is_set(work, how):
    run_library_program(work, "wall_clock_test", how)


def test_halt_beside_a_stuck_call(work):
    modules.build(os.path.join(HERE, "stuck"), work)
    run_library_program(work, "stuck_test", os.path.join(work, "stuck.ko"), f"hub:{work}/hub")


def test_halt_beside_a_thread_that_faults(work):
    modules.build(os.path.join(HERE, "faulting"), work)
    run_library_program(work, "faulting_test", os.path.join(work, "faulting.ko"))


def test_halt_of_a_process_that_was_stopped(work):
    run_library_program(work, "stopped_test")


def test_bad_pointers(work):
    run_library_program(work, "efault_test")


@pytest.mark.parametrize("vcpus", [1, 2])
def test_faults_in_handlers(work, vcpus):
    run_library_program(work, "handler_fault_test", str(vcpus))


@pytest.mark.parametrize("vcpus", [1, 2, 4])
def test_calls_in_handlers(work, vcpus):
    run_library_program(work, "handler_call_test", str(vcpus))


@pytest.mark.parametrize("vcpus,count", [(1, 10000), (2, 20000), (4, 10000),
                                         pytest.param(2, 100000, marks=pytest.mark.long)])
def test_threads(work, vcpus, count):
    run_library_program(work, "threads_test", str(vcpus), str(count), timeout=600)


@pytest.mark.needs("mkfs.xfs", "mkfs.btrfs")
def test_threads_with_small_stacks(work):
    """A thread needs 32 KB of free stack, as docs/c-api.md says, also for files and TCP."""
    kinds = ("ext4", "xfs", "btrfs")
    disks = [f"{kind}:{images.make(os.path.join(work, kind), kind)}" for kind in kinds]
    run_library_program(work, "small_stack_test", str(32 << 10), *disks)


@pytest.mark.parametrize("threads", [3000, pytest.param(32000, marks=pytest.mark.long)])
def test_many_threads_at_once(work, threads):
    """More than memory at boot would allow; and one too many gets an error."""
    run_library_program(work, "many_threads_test", str(threads), "200")


@pytest.mark.parametrize("vcpus", [1, 2, 4])
def test_signals(work, vcpus):
    run_library_program(work, "signals_test", str(vcpus), timeout=120)


def test_memory(work, image):
    run_library_program(work, "memory_test", image)
    check_ext4(image)
    mapped = run("debugfs", "-R", "cat /mapped", image)
    assert "by mapping" in mapped and "by pwrite" in mapped and "for me only" not in mapped


def test_mappings(work):
    """A page that a client touches is mapped once; one that the host cannot map is a bad pointer.
    """
    run_library_program(work, "mapping_test", timeout=120)


# For programs that count their descriptors.
NO_LOG_FILE = {"OUTBOARD_LOG_FILE": ""}


def host_gives_huge_pages():
    """To a tmpfs in namespaces of one's own, whatever the setting for other memory files is, but
    for this one.
    """
    script = "test ! -e $0 || ! grep -qF '[deny]' $0; mount -t tmpfs -o huge=always none /mnt"
    command = [
        "unshare", "--map-root-user", "--mount", "sh", "-ec", script,
        "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
    ]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.needs("unshare")
@pytest.mark.parametrize("way", ["alone", "prepared"])
def test_memory_of_huge_pages(work, way):
    if not host_gives_huge_pages():
        pytest.skip("this host gives no huge pages to files in memory")
    run_library_program(work, "huge_test", way, "huge", **NO_LOG_FILE)


def test_memory_without_huge_pages_for_who_is_filtered(work):
    run_library_program(work, "huge_test", "filtered", "small", **NO_LOG_FILE)


@pytest.mark.needs("unshare")
@pytest.mark.parametrize("way", ["alone", "prepared"])
def test_memory_where_name_spaces_are_refused(work, way):
    program = library_program(work, "huge_test.c", "client.c")
    refuse = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$0" "$@"'
    apart = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        refuse, apart = 'exec "$0" "$@"', []
    run(*apart, "sh", "-ec", refuse, program, way, "small", LD_LIBRARY_PATH=LIBRARIES,
        **NO_LOG_FILE)


def test_thousand_kernels(work, capsys):
    if available_megabytes() < 4000:
        pytest.skip("this host has less than 4 GB to spare")
    told = run_library_program(work, "crowd_test", "1000")
    with capsys.disabled():
        print(f"\n{told.strip()}")
    assert re.match(r"1000 kernels: ", told)


def test_interrupt(work):
    run_library_program(work, "interrupt_test")


@pytest.mark.parametrize("vcpus", ["1", "2", "16"])
def test_processes(work, vcpus):
    run_library_program(work, "process_test", vcpus)
    run_library_program(work, "process_bounds_test", vcpus)


# A program may be linked with nothing, or with the host's C library.
LINKS = {"static": ["-static"], "dynamic": []}


def libraries_of(program):
    """The interpreter and the libraries of a dynamic program."""
    return re.findall(r"(/\S+) \(0x", run("ldd", program))


@pytest.mark.parametrize("vcpus, link", [("1", "dynamic"), ("2", "static"), ("4", "static")])
def test_programs(work, vcpus, link):
    inside = compile_c(os.path.join(work, "inside"), ["program_inside.c"], "-pthread", *LINKS[link])
    run_library_program(work, "program_test", vcpus, inside,
                        *([] if link == "static" else libraries_of(inside)))


CASES = {
    "traced": ("registers", "steps", "restart", "calls", "events", "memory", "attaching", "core"),
    "filtered": ("filters", "sequences"),
}


@pytest.mark.parametrize("vcpus", ["1", "4"])
@pytest.mark.parametrize("program", CASES)
def test_debugged_and_filtered_programs(work, program, vcpus):
    inside = compile_c(os.path.join(work, "inside"), [f"{program}_inside.c"], "-pthread", "-static")
    run_library_program(work, "program_cases_test", vcpus, inside, *CASES[program])


def test_halt_ends_programs(work, image):
    inside = compile_c(os.path.join(work, "inside"), ["program_inside.c"], "-pthread", "-static")
    run_library_program(work, "program_halt_test", "2", image, inside)
    check_ext4(image)


def test_the_example_of_programs(work):
    example = library_program(work, f"{REPOSITORY}/docs/examples/run_program.c")
    programs.make_root(f"{work}/tree")
    root = images.make_ext4_of(f"{work}/root.img", f"{work}/tree")
    words = [example, root, "/bin/sh", "-c"]
    assert run(*words, "echo $0 $((6 * 7)); exit 3", "text", ok=3,
               LD_LIBRARY_PATH=LIBRARIES) == "text 42\n"
    run(*words, "kill -9 $$", ok=137, LD_LIBRARY_PATH=LIBRARIES)


def test_kernel_signals(work):
    run_library_program(work, "kernel_signals_test")


@pytest.mark.parametrize("way", ["again", "other", "itself"])
def test_handler_outlives_its_kernel(work, way):
    run_library_program(work, "handler_halt_test", way)


def test_calls_that_are_made_again(work):
    run_library_program(work, "restart_test")


def test_exit_races(work):
    run_library_program(work, "exit_race_test")


def available_megabytes():
    with open("/proc/meminfo", encoding="ascii") as lines:
        return next(
            int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable:"))


@pytest.mark.parametrize("megabytes", [300, pytest.param(8000, marks=pytest.mark.long)])
def test_memory_goes_back(work, megabytes):
    if available_megabytes() < 2 * megabytes:
        pytest.skip(f"this host has less than {2 * megabytes} MB to spare")
    run_library_program(work, "give_back_test", str(megabytes))


def test_reserve(work):
    run_library_program(work, "reserve_test")


@pytest.mark.parametrize("way",
                         ["chroot", "over", "apart", "ring", "rings", "full", "storm", "handler"])
def test_halt_unmounts_everything(work, image, way):
    run_library_program(work, "halt_test", way, image)
    assert "abc" in run("debugfs", "-R", "cat /left-open", image)
    assert "needs_recovery" not in run("dumpe2fs", "-h", image)
    check_ext4(image)


def test_few_host_threads(work):
    """vCPUs that the host has no threads for do not come up; those that did work."""
    program = library_program(work, "few_threads_test.c", "client.c")
    found = [int(run(program, "space", str(kilobytes), LD_LIBRARY_PATH=LIBRARIES))
             for kilobytes in range(100, 1100, 100)]
    assert 1 <= min(found) < max(found) <= 8, found


@pytest.mark.parametrize("number", [1, 3])
def test_a_vcpu_without_a_thread_is_in_nobodys_way(work, number):
    program = library_program(work, "few_threads_test.c", "client.c")
    assert int(run(program, "without", str(number), LD_LIBRARY_PATH=LIBRARIES)) == 7


def test_refused(work):
    run_library_program(work, "refused_test")


@pytest.mark.parametrize("compiler", ["gcc", "clang", "static"])
def test_example(work, image, compiler):
    if compiler == "clang" and not shutil.which("clang"):
        pytest.skip("the tool clang is not installed")
    source = os.path.join(REPOSITORY, "docs", "examples", "read_file.c")
    with open(source, encoding="ascii") as stream:
        assert len(stream.readlines()) <= 40
    program = library_program(work, source, static=compiler == "static",
                              compiler="clang" if compiler == "clang" else "gcc")
    output = run(program, image, "/hello", LD_LIBRARY_PATH=LIBRARIES)
    assert output == "hello from the image\n" * 10000
    run(program, image, "/missing", ok=1, LD_LIBRARY_PATH=LIBRARIES)
    run(program, os.path.join(work, "missing.img"), "/hello", ok=1, LD_LIBRARY_PATH=LIBRARIES)


@pytest.mark.parametrize("compiler,standard", [("gcc", "c99"), ("gcc", "gnu17"), ("g++", "c++11"),
                                               ("g++", "c++20")])
def test_headers(work, compiler, standard):
    """The headers stand alone, and beside the C library's."""
    ours = "".join(f"#include <outboard/{name}.h>\n"
                   for name in ("outboard", "net", "syscall", "syscalls"))
    for name, text in ("alone", ours), ("both", '#include "headers.h"\n'):
        source = os.path.join(work, f"{name}.{'cc' if compiler == 'g++' else 'c'}")
        with open(source, "w", encoding="ascii") as stream:
            stream.write(text)
        run(compiler, f"-std={standard}", "-pedantic", "-Wall", "-Wextra", "-Werror",
            "-fsyntax-only", source, "-D_GNU_SOURCE", "-I", HERE, *pkg_config("--cflags"))


def defined_symbols(*arguments):
    lines = run("nm", *arguments).splitlines()
    return {line.split()[-1] for line in lines if re.match(r"[0-9a-f]+ [A-Zuvw] ", line)}


def declared_functions():
    include = os.path.join(OUT, "include", "outboard")
    names = set()
    for header in ("outboard.h", "net.h", "sockets.h", "syscalls.h"):
        with open(os.path.join(include, header), encoding="ascii") as stream:
            text = re.sub(r"/\*.*?\*/|static inline .*?^}$", "", stream.read(), flags=re.S | re.M)
        names |= set(re.findall(r"(?<!typedef void )(?<!typedef int )\b(ob_\w+)\(", text))
    return names


def test_exported_symbols():
    """The library exports exactly the functions that the headers declare."""
    declared = declared_functions()
    assert {"ob_boot", "ob_halt", "ob_syscall", "ob_sys_openat", "ob_disk_add"} <= declared
    assert len(declared) > 300
    assert defined_symbols("-D", os.path.join(LIBRARIES, "liboutboard.so")) == declared
    assert defined_symbols("-g", "--defined-only", os.path.join(LIBRARIES,
                                                                "liboutboard.a")) == declared
