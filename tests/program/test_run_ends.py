# SPDX-License-Identifier: GPL-2.0-only
"""Programs of `outboard run` that the kernel ends: for want of memory, or as one of them wants."""

import os
import re

import pytest

from support import images, program, programs


@pytest.fixture(scope="module", name="image")
def fixture_image(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("ends"))
    tree = os.path.join(directory, "root")
    programs.make_root(tree, "busybox", "dd", "head", "sleep")
    return images.make_ext4_of(os.path.join(directory, "root.img"), tree)


def script(image, text):
    return program.run("run", "--memory", "96M", image, "--", "sh", "-c", text)


@pytest.mark.kernel_reports("the kernel's log has Linux's report on memory")
def test_the_program_with_most_memory_is_killed(image):
    done = script(image, "sleep 1000 & head -c 30M /dev/zero > /tmp/file;"
                         " dd if=/dev/zero of=/dev/null bs=90M count=1; echo status $?;"
                         " kill $! && echo others live")
    assert (done.code, done.out) == (0, "status 137\nothers live\n"), done
    assert re.search(r"outboard: warning: dd \(process \d+\) was killed: the kernel has used its "
                     r"96 MB; --memory gives it more\n", done.err), done


@pytest.mark.kernel_reports("the kernel's log has Linux's report on memory")
def test_the_first_program_is_killed(image):
    done = script(image, "head -c 30M /dev/zero > /tmp/file;"
                         " exec dd if=/dev/zero of=/dev/null bs=90M count=1")
    assert done.code == 137 and "was killed: the kernel has used its 96 MB" in done.err, done


@pytest.mark.parametrize("name, code, wish", (
    ("reboot", 129, "a restart"), ("poweroff", 130, "a power-off"), ("halt", 130, "a power-off")))
def test_a_program_ends_all_programs(image, name, code, wish):
    done = script(image, f"sleep 1000 & busybox {name} -f; echo more")
    assert (done.code, done.out) == (code, ""), done
    told = rf"outboard: warning: busybox \(process \d+\) wants {wish}: all programs end\n"
    assert re.search(told, done.err), done
