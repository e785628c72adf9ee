# SPDX-License-Identifier: GPL-2.0-only
"""A Debian system, and how each contender runs a script in it: the host by chroot, Outboard, User
Mode Linux and gVisor.

chroot and gVisor have the system as a directory, Outboard and UML have the same as an ext4 image.
Changes go with the run. UML keeps them in a file, the others in memory: for chroot, overlayfs keeps
them in a tmpfs.
"""

import contextlib
import json
import os
from collections.abc import Iterator

from contenders import host, program, scratch
from programs import found
from support import debian

INCLUDED = ("apt-utils", "gcc", "git", "iproute2", "libc6-dev", "make", "mount", "nginx-light",
            "redis-server")
# With the seven others that these depend on, the packages of the system's own repository.
TO_INSTALL = ("bc", "bzip2", "dc", "ed", "file", "jq", "less", "m4", "nano", "patch", "tree",
              "unzip", "zip")
REPOSITORY = "/srv/repository"
DOWNLOAD = f"""export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
apt-get clean
apt-get -y --no-install-recommends --download-only install {" ".join(TO_INSTALL)}
mkdir "$1{REPOSITORY}"
mv "$1"/var/cache/apt/archives/*.deb "$1{REPOSITORY}/"
"""
WORDS = ("--variant=apt", f"--include={','.join(INCLUDED)}", f"--customize-hook={DOWNLOAD}",
         "bookworm", "system.tar")
SCRIPTS = "/srv/scripts"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
# Process 1 of UML: runs a script, and ends the machine. Its console is UML's standard output.
FIRST_PROCESS = f"""#!/bin/bash
mount -t proc proc /proc
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
export {" ".join(f"{name}={value}" for name, value in ENVIRONMENT.items())}
"$@"
echo "status $?"
echo o >/proc/sysrq-trigger
sleep 10
"""
CAPABILITIES = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_KILL", "CAP_NET_BIND_SERVICE", "CAP_SETGID",
                "CAP_SETUID"]
MEMORY = "2G"


def write_script(tree: str, name: str, text: str) -> None:
    path = f"{tree}{SCRIPTS}/{name}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text if text.startswith("#!") else f"#!/bin/bash\nset -euo pipefail\n{text}")
    os.chmod(path, 0o755)


def runsc() -> list[str]:
    return [found("runsc"), "--platform=systrap", "--ignore-cgroups"]


class System:
    """The system in a directory for temporary files. Scripts are named as in `write_script`."""

    def __init__(self, directory: str):
        self.tree = os.path.join(directory, "tree")
        self.image = os.path.join(directory, "system.img")
        self.changes = os.path.join(directory, "changes")

    def chroot(self, *words: str, root: str = "") -> list[str]:
        variables = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
        return ["env", "-i", *variables, "chroot", root or self.tree, *words]

    @contextlib.contextmanager
    def native(self) -> Iterator[str]:
        """A root directory for `chroot`, with changes that go with it."""
        with contextlib.ExitStack() as mounts:
            changes = mounts.enter_context(host.mounted("mount", "-t", "tmpfs", "tmpfs"))
            for name in ("upper", "work"):
                os.mkdir(os.path.join(changes, name))
            root = mounts.enter_context(host.mounted(
                "mount", "-t", "overlay", "-o", f"lowerdir={self.tree},upperdir={changes}/upper,"
                f"workdir={changes}/work", "overlay"))
            proc = os.path.join(root, "proc")
            host.run("mount", "-t", "proc", "proc", proc)
            mounts.callback(host.unmount, proc)
            yield root

    def outboard(self, *words: str, options: tuple = ()) -> list[str]:
        return program.command("run", "--memory", MEMORY, *options, self.image, "--", *words)

    def uml(self, *words: str, options: tuple = ()) -> list[str]:
        """An argument of a script must be one word."""
        return [found("linux.uml"), f"mem={MEMORY}", f"ubd0={self.changes},{self.image}",
                "root=/dev/ubda", "rw", "quiet", "con=null", "con0=null,fd:1", *options,
                f"init={SCRIPTS}/first", "--", *words]

    def forget_changes(self) -> None:
        """Before a run of UML: its image is as it was."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.changes)

    def gvisor(self, *words: str) -> list[str]:
        return [*runsc(), "--network=none", "do", "-root", self.tree, "-cwd", "/", *words]

    def gvisor_bundle(self, *words: str, bound: str = "", place: str = "/mnt",
                      namespace: str = "") -> list[str]:
        """With a directory of the host, or the interfaces of a network namespace. That needs a
        configuration as the OCI's runtime specification has it.
        """
        mounts = [{"destination": "/proc", "type": "proc", "source": "proc"},
                  {"destination": "/run", "type": "tmpfs", "source": "tmpfs"},
                  {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}]
        if bound:
            mounts.append({"destination": place, "type": "bind", "source": bound})
        kinds = [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]
        network = {"type": "network"} | ({"path": f"/run/netns/{namespace}"} if namespace else {})
        config = {
            "ociVersion": "1.0.0",
            "process": {
                "user": {"uid": 0, "gid": 0}, "cwd": "/", "args": words,
                "env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
                "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), CAPABILITIES),
            },
            "root": {"path": self.tree}, "mounts": mounts,
            "linux": {"namespaces": [*kinds, network]},
        }
        directory = os.path.join(os.path.dirname(self.tree), "bundle")
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, "config.json"), "w", encoding="ascii") as stream:
            json.dump(config, stream)
        return [*runsc(), f"--network={'sandbox' if namespace else 'none'}",
                "--overlay2=root:memory", "run", "-bundle", directory,
                f"outboard-benchmark-{os.getpid()}"]


@contextlib.contextmanager
def system(scripts: dict[str, str], prepare: str = "true") -> Iterator[System]:
    """Makes the system with these scripts, after `prepare`, a script that is run in it."""
    os.environ.setdefault("XDG_CACHE_HOME", os.path.join(program.OUT, "test-cache"))
    with scratch() as directory:
        made = System(directory)
        os.mkdir(made.tree)
        host.run("tar", "-C", made.tree, "-xpf", debian.system(list(WORDS), []))
        for name, text in ({"first": FIRST_PROCESS} | scripts).items():
            write_script(made.tree, name, text)
        host.run(*made.chroot("bash", "-euc", prepare))
        host.sparse_file(made.image, 4 << 30)
        host.run("mke2fs", "-q", "-F", "-t", "ext4", "-d", made.tree, made.image)
        yield made
