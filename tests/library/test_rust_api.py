# SPDX-License-Identifier: GPL-2.0-only
"""The Rust API as its users have it: the examples of the crates, programs of their own with an
installed library, and the page of the documentation.
"""

import os
import re
import shutil

import pytest

from support import host, images, luks
from support.program import OUT, REPOSITORY

CRATES = os.path.join(REPOSITORY, "crates")
PAGE = os.path.join(REPOSITORY, "docs", "rust-api.md")
LIBRARIES = os.path.join(OUT, "lib")


def cargo(*words, directory=CRATES, ok=(0,), **variables):
    """Runs cargo without a network."""
    return host.run("cargo", words[0], "--offline", *words[1:], cwd=directory, ok=ok, timeout=1500,
                    **variables)


@pytest.fixture(scope="module", name="examples")
def built_examples():
    target = os.path.join(OUT, "cargo")
    # All crates, as make and cargo test build them: what these left is used again.
    cargo("build", "--release", "--locked", "--workspace", "--examples", CARGO_TARGET_DIR=target,
          OUTBOARD_LIB_DIR=LIBRARIES)
    return os.path.join(target, "release", "examples")


@pytest.fixture(name="image")
def small_image(work):
    os.makedirs(f"{work}/tree/d")
    with open(f"{work}/tree/d/file", "w", encoding="ascii") as stream:
        stream.write("text\n")
    return images.make_ext4_of(f"{work}/image", f"{work}/tree")


def quiet(program, *words):
    """The output of a program that must not print anything on standard error."""
    done = host.run(program, *words)
    assert done.stderr == ""
    return done.stdout


def test_a_tree_is_listed(examples, image):
    said = quiet(f"{examples}/list_tree", image, "/d").splitlines()
    assert [line.split()[1] for line in said] == ["/d", "/d/file"]
    assert said[1].split()[0] == "5"
    missing = host.run(f"{examples}/list_tree", image, "/none", ok=(1,))
    assert "No such file" in missing.stderr


@pytest.mark.needs("cryptsetup", "qemu-img")
def test_a_file_of_an_encrypted_image(examples, image, work):
    with open(f"{work}/key", "w", encoding="ascii") as stream:
        stream.write("correct horse")
    with open(f"{work}/wrong", "w", encoding="ascii") as stream:
        stream.write("battery staple")
    luks.encrypt(image, f"{work}/key")
    disk = f"{work}/disk.qcow2"
    host.run("qemu-img", "convert", "-O", "qcow2", image, disk)
    program = f"{examples}/read_file"
    assert quiet(program, disk, f"{work}/key", "/d/file") == "text\n"
    wrong = host.run(program, disk, f"{work}/wrong", "/d/file", ok=(3,))
    assert "key" in wrong.stderr
    host.run(program, f"{work}/none", f"{work}/key", "/d/file", ok=(4,))


def test_a_file_is_copied_in(examples, image, work):
    noise = images.write_noise(f"{work}/noise", 3)
    assert quiet(f"{examples}/copy_in", noise, image, "/d/noise") == ""
    images.check_unmounted_ext4(image)
    assert quiet(f"{examples}/copy_tree", image, "/d", f"{work}/out").startswith("2 files")
    assert images.contents(f"{work}/out/noise") == images.contents(noise)


def test_a_page_is_fetched_over_a_cable_of_the_kernel(examples):
    assert quiet(f"{examples}/http") == "Hello from a kernel in a process\n"


def test_an_event_loop_echoes(examples):
    assert quiet(f"{examples}/echo") == "Hello, Hello\n"


def blocks_of_page() -> list:
    with open(PAGE, encoding="utf-8") as stream:
        return re.findall(r"^```rust,no_run\n(.*?)^```$", stream.read(), re.MULTILINE | re.DOTALL)


MANIFEST = """\
[package]
name = "user"
version = "0.1.0"
edition = "2021"

[dependencies]
outboard = {{ path = "{crates}/outboard" }}

[workspace]
"""

# The example of the lower level: it needs the two crates below outboard-volume alone.
LOWER = "Kernel::builder().vcpus(2)"


# It compiles two crates twice.
@pytest.mark.long
@pytest.mark.needs("make", "pkg-config")
def test_a_program_with_an_installed_library(image, work, monkeypatch):
    """From a clean checkout: with the installed library, and without any."""
    monkeypatch.delenv("OUTBOARD_LIB_DIR", raising=False)
    crates, user = f"{work}/checkout/crates", f"{work}/user"
    shutil.copytree(CRATES, crates, ignore=shutil.ignore_patterns("target"))
    os.makedirs(f"{user}/src")
    with open(f"{user}/Cargo.toml", "w", encoding="ascii") as stream:
        stream.write(MANIFEST.format(crates=crates))
    shutil.copy(f"{CRATES}/Cargo.lock", f"{user}/Cargo.lock")
    program, = (block for block in blocks_of_page() if LOWER in block)
    for old, new in (("disk.img", image), ("Some(1)", "None"), ("/etc/hostname", "/d/file"),
                     ("/etc", "/d")):
        assert old in program, old
        program = program.replace(old, new)
    with open(f"{user}/src/main.rs", "w", encoding="ascii") as stream:
        stream.write(program)
    nowhere = {"CARGO_TARGET_DIR": f"{work}/target", "PKG_CONFIG_LIBDIR": f"{work}/empty",
               "PKG_CONFIG_PATH": ""}
    missing = cargo("build", directory=user, ok=(101,), **nowhere)
    assert "cannot find liboutboard.a" in missing.stderr
    assert "make install" in missing.stderr and "OUTBOARD_LIB_DIR" in missing.stderr
    wrong = cargo("build", directory=user, ok=(101,), OUTBOARD_LIB_DIR=work, **nowhere)
    assert f"it is not in OUTBOARD_LIB_DIR={work}" in wrong.stderr
    prefix = f"{work}/opt/outboard"
    host.run("make", "-C", REPOSITORY, "install", f"PREFIX={prefix}", timeout=600)
    installed = {**nowhere, "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig"}
    cargo("build", directory=user, **installed)
    said = quiet(f"{work}/target/debug/user")
    assert '"file" 5' in said and '"motd" 6' in said
    images.check_unmounted_ext4(image)
