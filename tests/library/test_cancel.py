# SPDX-License-Identifier: GPL-2.0-only
"""Threads that are cancelled (invariant V7): no hypercall is a cancellation point."""

import glob
import os

from test_capi import LIBRARIES, OUT, REPOSITORY, check_ext4, library_program, run

OBJECTS = os.path.join(OUT, "kernel", "full", "outboard-library")

# POSIX's list and glibc's additions, without what only differs by a suffix (64, _chk, _2).
CANCELLATION_POINTS = set("""
accept accept4 aio_suspend clock_nanosleep close connect copy_file_range creat epoll_pwait
epoll_wait fallocate fcntl fdatasync fsync getrandom lockf mq_receive mq_send mq_timedreceive
mq_timedsend msgrcv msgsnd msync nanosleep open open_by_handle_at openat pause poll posix_fallocate
ppoll pread preadv preadv2 pselect pthread_cond_clockwait pthread_cond_timedwait pthread_cond_wait
pthread_clockjoin_np pthread_join pthread_testcancel pthread_timedjoin_np pwrite pwritev pwritev2
read readv recv recvfrom recvmmsg recvmsg select sem_clockwait sem_timedwait sem_wait send sendmmsg
sendmsg sendto sigpause sigsuspend sigtimedwait sigwait sigwaitinfo sleep splice sync_file_range
system tcdrain tee thrd_join thrd_sleep usleep vmsplice wait wait3 wait4 waitid waitpid write writev
dprintf fclose fflush fgetc fgets fopen fprintf fputc fputs fread fscanf fseek fwrite getline perror
popen printf putchar puts syslog vdprintf vfprintf vprintf
""".split())

# Imports that are allowed although they are in the list, and the reason.
ALLOWED = {
    ("hypercall/posix/block_open", "fcntl"):
        "waits only with F_SETLKW and its like, which is not used",
    ("hypercall/posix/file_lock", "fcntl"): "the same",
    ("hypercall/posix/thread", "pthread_join"): "cancellation is disabled around it",
    ("hypercall/posix/thread", "pthread_timedjoin_np"): "the same",
    ("lib/wait", "pthread_cond_wait"): "the same",
    ("lib/wait", "pthread_cond_clockwait"): "the same",
}


# outboard/sockets.h puts these in the place of the program's own calls, which are cancellation
# points. They hold no vCPU.
PROGRAMS_OWN = "lib/descriptors/"


def plain(name: str) -> str:
    name = name.partition("@")[0].removeprefix("__").removeprefix("isoc99_")
    return name.removesuffix("_chk").removesuffix("_2").removesuffix("64")


def imports(path: str) -> set:
    return {plain(line.split()[-1]) for line in run("nm", "-u", path).splitlines() if line.strip()}


def test_no_cancellation_points():
    sources = [source.removesuffix(".c")
               for pattern in ("hypercall/posix/**/*.c", "devices/**/*.c", "lib/**/*.c")
               for source in glob.glob(pattern, root_dir=REPOSITORY, recursive=True)]
    folders = {os.path.dirname(source) for source in sources}
    assert folders >= {"hypercall/posix", "devices/net", "lib"}
    found = {(source, name)
             for source in sources if not source.startswith(PROGRAMS_OWN)
             for name in imports(os.path.join(OBJECTS, f"{source}.o")) & CANCELLATION_POINTS}
    assert found == set(ALLOWED)


# Functions whose new descriptor may be 0, 1 or 2. Objects call those of hypercall/posix/raw.h.
MAKERS = set("""
accept accept4 creat dup epoll_create epoll_create1 eventfd inotify_init1 memfd_create open openat
opendir pidfd_open pipe pipe2 recvmsg signalfd socket socketpair timerfd_create
""".split())


def test_no_descriptor_gets_a_standard_number():
    """The text of a program that has closed its standard descriptors must not reach a disk."""
    objects = [name for pattern in ("hypercall/posix/**/*.o", "devices/**/*.o", "lib/*.o")
               for name in glob.glob(pattern, root_dir=OBJECTS, recursive=True)]
    assert len(objects) > 100
    assert not {(name, found) for name in objects
                for found in imports(os.path.join(OBJECTS, name)) & MAKERS}


def test_cancelled_threads(work):
    tree = os.path.join(work, "tree")
    os.mkdir(tree)
    with open(os.path.join(tree, "large"), "wb") as stream:
        stream.write(os.urandom(64 * 65536))
    image = os.path.join(work, "disk.img")
    run("mkfs.ext4", "-q", "-d", tree, image, "64M")
    with open(os.path.join(work, "second.img"), "wb") as stream:
        stream.truncate(1 << 20)
    program = library_program(work, "cancel_test.c", "client.c")
    run("sh", "-c", 'cd "$1" && exec "$0" disk.img', program, work, LD_LIBRARY_PATH=LIBRARIES,
        OUTBOARD_LOG="info", timeout=300)
    check_ext4(image)
