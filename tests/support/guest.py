# SPDX-License-Identifier: GPL-2.0-only
"""
A virtual machine with the distribution's kernel and tools, for what the host's own kernel may lack
or root may not do: device mapper and md, and for network devices of QEMU. It boots from a memory
file system that is made here of installed programs, runs one shell script with disks as /dev/vdb,
/dev/vdc... and ends. It needs no /dev/kvm; booting takes some 15 seconds.
"""

import contextlib
import functools
import glob
import os
import shutil
import subprocess

from support import host

MODULES = ("virtio_pci", "virtio_blk", "dm-mod", "dm-raid", "dm-snapshot", "dm-thin-pool",
           "dm-mirror", "dm-crypt", "dm-verity", "dm-integrity", "raid0", "raid1", "raid10",
           "raid456", "ext4", "btrfs", "virtio_net")
PROGRAMS = ("busybox", "lvm", "mdadm", "dmsetup", "thin_check", "mke2fs", "e2fsck", "mkfs.btrfs",
            "btrfs")
END = "guest ended with"
# Where the host has other work, the emulated timer looks broken to Linux, which panics.
NO_TIMER_CHECK = "no_timer_check"

INIT = r"""#!/bin/sh
export PATH=/sbin:/bin LVM_SUPPRESS_FD_WARNINGS=1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
ln -s /proc/self/fd /dev/fd
mkdir -p /run/lock /tmp /mnt /etc/lvm /dev/mapper
for module in $(cat /modules); do insmod $module; done
cat > /etc/lvm/lvm.conf <<'END'
devices { obtain_device_list_from_udev = 0 }
activation { udev_sync = 0 udev_rules = 0 monitoring = 0 verify_udev_operations = 0 }
backup { backup = 0 archive = 0 }
END
mkdir /work
tar -x -C /work -f /dev/vda
cd /work
(set -e; . ./script) < /dev/null
echo "guest ended with $?"
sync
poweroff -f
"""


@functools.cache
def kernel():
    """The newest installed kernel that has what is needed, as (file, directory of its modules).
    None: there is none.
    """
    for modules in sorted(glob.glob("/lib/modules/*"), reverse=True):
        file = "/boot/vmlinuz-" + os.path.basename(modules)
        if os.path.exists(file) and os.path.exists(f"{modules}/kernel/drivers/md/dm-mod.ko"):
            return file, modules
    return None


def usable() -> bool:
    return kernel() is not None and all(map(host.have, ("qemu-system-x86_64", "cpio", *PROGRAMS)))


def module_files(directory: str) -> list:
    """Files of the modules and of what they need, in the order in which they can be loaded."""
    needs = {}
    with open(f"{directory}/modules.dep", encoding="ascii") as lines:
        for line in lines:
            file, _, rest = line.partition(":")
            needs[os.path.basename(file).split(".")[0].replace("-", "_")] = [file, *rest.split()]
    found = []
    for name in MODULES:
        # A built-in module has no file.
        for file in reversed(needs.get(name.replace("-", "_"), [])):
            if file not in found:
                found.append(file)
    return found


def copy_program(name: str, root: str) -> None:
    """Copies a program and the libraries that it is linked with."""
    source = shutil.which(name, path=host.PATH)
    shutil.copy(source, f"{root}/bin/{name}")
    for line in host.run("ldd", source, ok=(0, 1)).stdout.splitlines():
        for word in line.split():
            if word.startswith("/") and os.path.exists(word):
                os.makedirs(root + os.path.dirname(word), exist_ok=True)
                shutil.copy(word, root + word)


@contextlib.contextmanager
def scratch():
    directory = host.temporary_directory()
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@functools.cache
def initial_files() -> bytes:
    """The archive that the kernel unpacks as its root."""
    _, modules = kernel()
    with scratch() as root:
        for directory in ("bin", "sbin", "proc", "sys", "dev"):
            os.mkdir(f"{root}/{directory}")
        for name in PROGRAMS:
            copy_program(name, root)
        for applet in host.run("busybox", "--list").stdout.split():
            if not os.path.lexists(f"{root}/bin/{applet}"):
                os.symlink("busybox", f"{root}/bin/{applet}")
        files = module_files(modules)
        for file in files:
            shutil.copy(f"{modules}/{file}", f"{root}/{os.path.basename(file)}")
        with open(f"{root}/modules", "w", encoding="ascii") as stream:
            stream.writelines(f"/{os.path.basename(file)}\n" for file in files)
        with open(f"{root}/init", "w", encoding="ascii") as stream:
            stream.write(INIT)
        os.chmod(f"{root}/init", 0o755)
        names = host.run("find", ".", cwd=root).stdout
        return host.run("cpio", "-o", "-H", "newc", "--quiet", cwd=root, input=names.encode(),
                        text=False).stdout


def run(script: str, disks, files=(), options=(), words=(), timeout=1500) -> str:
    """
    Runs a shell script that must succeed, in a directory that has `files`. `disks`: raw images,
    which it may change; `options`: more words of QEMU's command line; `words`: more of the
    kernel's. Returns what it wrote.
    """
    file, _ = kernel()
    with scratch() as directory:
        with open(f"{directory}/script", "w", encoding="utf-8") as stream:
            stream.write(script)
        with open(f"{directory}/root", "wb") as stream:
            stream.write(initial_files())
        for path in files:
            copy = shutil.copytree if os.path.isdir(path) else shutil.copy
            copy(path, f"{directory}/{os.path.basename(path)}")
        payload = f"{directory}/payload.tar"
        names = ["script", *map(os.path.basename, files)]
        host.run("tar", "-c", "-f", payload, "-C", directory, "--numeric-owner", *names)
        drives = [
            word for path in [payload, *disks]
            for word in ("-drive", f"file={path},if=virtio,format=raw,cache=unsafe")
        ]
        done = subprocess.run([
            "qemu-system-x86_64", "-accel", "tcg", "-m", "512", "-nographic", "-no-reboot",
            "-nodefaults", "-serial", "stdio", "-net", "none", "-kernel", file, "-initrd",
            f"{directory}/root", "-append", " ".join(("console=ttyS0 quiet panic=-1",
                                                      NO_TIMER_CHECK, *words)),
            *drives, *options
        ], stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)
    text = done.stdout.decode(errors="replace").replace("\r\n", "\n")
    if f"{END} 0" not in text:
        raise host.ToolFailed(
            f"the guest failed:\n{text[-6000:]}{done.stderr.decode(errors='replace')[-1000:]}")
    return text.partition(END)[0]
