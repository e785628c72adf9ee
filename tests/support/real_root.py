# SPDX-License-Identifier: GPL-2.0-only
"""A root image with whole packages of the host's Debian, each with all that it depends on. So the
versions inside are those of the host, whose results tests compare.
"""

import glob
import os
import shutil

import pytest

from . import host, images, program

PACKAGES = ("bash", "coreutils", "dash", "diffutils", "findutils", "gcc", "git", "grep", "gzip",
            "iproute2", "libc-bin", "libc6-dev", "make", "perl", "procps", "python3",
            "python3-venv", "sed", "sqlite3", "tar")
# What nobody runs or reads there.
LEFT_OUT = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/usr/share/info/",
            "/usr/share/lintian/")
# Python's own tests: Debian's package, which the host need not have.
TESTS_OF_PYTHON = "libpython3.11-testsuite"
DIRECTORIES = ("dev", "etc", "proc", "root", "run", "sys", "tmp", "usr/bin", "usr/lib",
               "usr/lib64", "usr/sbin", "var/tmp")
# Directories at the top that are links into /usr.
LINKS = ("bin", "lib", "lib64", "sbin")


def closure(packages) -> list:
    """The packages and all installed ones that they depend on."""
    words = ("depends", "--recurse", "--installed", "--no-recommends", "--no-suggests",
             "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances")
    listed = host.run("apt-cache", *words, *packages).stdout
    return sorted({line for line in listed.splitlines() if line[:1].isalnum()})


def require(packages) -> None:
    """Skips the test if a package is not installed: tests of the long run install none."""
    for package in packages:
        state = host.run("dpkg-query", "-W", "-f", "${Status}", package, ok=None).stdout
        if state != "install ok installed":
            pytest.skip(f"the package {package} is not installed")


def files_of(packages) -> list:
    """The files of packages, by the directories' own names, and the links of alternatives."""
    listed = host.run("dpkg-query", "-L", *packages, ok=None).stdout.splitlines()
    links = [path for path in glob.glob("/usr/bin/*") + glob.glob("/usr/lib/*/*")
             if os.path.islink(path) and os.readlink(path).startswith("/etc/alternatives/")]
    paths = [path for path in listed + links
             if not path.startswith(LEFT_OUT) and (os.path.islink(path) or os.path.isfile(path))]
    return sorted({os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
                   for path in paths})


def add_tests_of_python(tree: str) -> None:
    """Adds them if Debian's mirror can be reached."""
    scratch = os.path.join(tree, "tmp")
    host.run("apt-get", "download", TESTS_OF_PYTHON, cwd=scratch, ok=None)
    for package in glob.glob(os.path.join(scratch, "*.deb")):
        host.run("dpkg-deb", "-x", package, tree)
        os.unlink(package)


def make(directory: str, *more: str) -> str:
    """An ext4 image of a system with these packages, too. Returns its path."""
    packages = (*PACKAGES, *more)
    require(packages)
    tree = os.path.join(directory, "root")
    for name in DIRECTORIES:
        os.makedirs(os.path.join(tree, name))
    for name in LINKS:
        os.symlink(f"usr/{name}", os.path.join(tree, name))
    names = "\0".join(path.lstrip("/") for path in files_of(closure(packages)))
    archive = os.path.join(directory, "root.tar")
    host.run("tar", "-C", "/", "-cf", archive, "--null", "-T", "-", "etc/alternatives",
             "etc/passwd", "etc/group", "etc/ld.so.cache", input=names)
    host.run("tar", "-C", tree, "-xf", archive)
    os.unlink(archive)
    add_tests_of_python(tree)
    image = images.make_ext4_of(os.path.join(directory, "root.img"), tree, 2048)
    shutil.rmtree(tree)
    return image


def run(image: str, script: str, *words: str, vcpus: int = 2, timeout: int = 1800):
    """Runs a script of bash with these words in the system, and returns the result."""
    return program.run("run", "--memory", "3G", image, "--", "bash", "-c", script, "bash", *words,
                       vcpus=vcpus, timeout=timeout)
