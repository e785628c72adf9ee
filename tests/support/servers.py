# SPDX-License-Identifier: GPL-2.0-only
"""Servers of NFS, SMB, 9p and NBD on the host's loopback interface, at free ports, without a change
of the host. Each ends with its block. NFS 3 needs port 111, so it has a network of its own. All but
NBD need root.
"""

import contextlib
import getpass
import os
import random
import signal
import socket
import subprocess

from support import processes
from support.host import require_root
from support.patience import wait_until

HOST = "127.0.0.1"
PASSWORD = "Sesam, öffne"

GANESHA = """
NFS_CORE_PARAM {{
    NFS_Protocols = 4; NFS_Port = {port}; Bind_addr = 127.0.0.1; Enable_NLM = false;
    Enable_RQUOTA = false; Enable_UDP = false; allow_set_io_flusher_fail = true;
    Plugins_Dir = "/usr/lib/x86_64-linux-gnu/ganesha";
}}
NFSv4 {{
    Graceless = true; Only_Numeric_Owners = true; RecoveryRoot = "{private}";
    Minor_Versions = {minors};
}}
NFS_KRB5 {{ Active_krb5 = false; }}
EXPORT {{
    Export_Id = 1; Path = {export}; Pseudo = /export; Access_Type = RW; Squash = No_Root_Squash;
    SecType = sys; Protocols = 4; Transports = TCP; FSAL {{ Name = VFS; }}
}}
"""

GANESHA_3 = """
NFS_CORE_PARAM {{
    NFS_Protocols = 3; NFS_Port = 2049; MNT_Port = {mount_port}; Bind_addr = 127.0.0.1;
    Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false;
    Plugins_Dir = "/usr/lib/x86_64-linux-gnu/ganesha";
}}
NFS_KRB5 {{ Active_krb5 = false; }}
EXPORT {{
    Export_Id = 1; Path = {export}; Pseudo = /export; Access_Type = RW; Squash = No_Root_Squash;
    SecType = sys; Protocols = 3; Transports = TCP; FSAL {{ Name = VFS; }}
}}
"""

# In namespaces of network and mounts. Ganesha takes no address of a machine that has only loopback
# addresses.
WITH_PORT_MAPPER = """
mount -t tmpfs none /run && mkdir /run/ganesha && ip link set lo up &&
ip address add 10.77.0.1/32 dev lo && { rpcbind -f & } && exec "$@"
"""

SAMBA = """
[global]
server role = standalone server
smb ports = {port}
bind interfaces only = yes
interfaces = lo
pid directory = {private}
lock directory = {private}
state directory = {private}
cache directory = {private}
private dir = {private}
ncalrpc dir = {private}/ncalrpc
log file = {private}/log
passdb backend = tdbsam:{private}/passdb.tdb
map to guest = never
load printers = no
disable spoolss = yes
[share]
path = {export}
read only = no
"""


# Sockets whose names reserve ports for this process, as long as it runs.
_reserved: list = []


def is_free(port: int) -> bool:
    with socket.socket() as found:
        try:
            found.bind((HOST, port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """A port that stays free until its server binds it: no other run of the tests takes it, and the
    host gives no port of this range to a client.
    """
    for port in random.sample(range(20000, 32000), 200):
        holder = socket.socket(socket.AF_UNIX)
        try:
            holder.bind(f"\0outboard-test-port-{port}")
        except OSError:
            holder.close()
            continue
        _reserved.append(holder)
        if is_free(port):
            return port
    raise AssertionError("no port is free")


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((HOST, port)) == 0


class Server:
    """A running server: `port`, and the directory that it offers, if any."""

    def __init__(self, process: subprocess.Popen, port: int, export: str):
        self.process, self.port, self.export = process, port, export

    def stop_answering(self):
        self.process.send_signal(signal.SIGSTOP)
        # Its threads stop one after the other.
        wait_until(lambda: processes.states_of(self.process.pid) == {"T"}, "it has stopped")

    def answer_again(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait(10)


@contextlib.contextmanager
def started(words: list, port: int, export: str, private: str, is_ready=None):
    """`is_ready`: whether it answers; by default, whether something listens at the port."""
    os.makedirs(private, exist_ok=True)
    with open(os.path.join(private, "output"), "wb") as output:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True)
    try:
        wait_until(lambda: process.poll() is not None or
                   (is_ready(process) if is_ready else listens(port)), f"{words[0]} listens")
        assert process.poll() is None, open(os.path.join(private, "output")).read()[-2000:]
        yield Server(process, port, export)
    finally:
        # smbd has children, and a stopped process takes no other signal.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def directories(work: str, name: str) -> tuple:
    export, private = (os.path.join(work, name + part) for part in ("-export", "-private"))
    for path in (export, private):
        os.makedirs(path, exist_ok=True)
    return export, private


def write(path: str, text: str) -> str:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def nfs(work: str, minors: str = "0,1,2"):
    require_root()
    export, private = directories(work, "nfs")
    port = free_port()
    text = GANESHA.format(port=port, export=export, private=private, minors=minors)
    words = ["ganesha.nfsd", "-F", "-f", write(os.path.join(private, "conf"), text),
             "-L", os.path.join(private, "log"), "-p", os.path.join(private, "pid")]
    return started(words, port, export, private)


def beside(server: subprocess.Popen) -> list:
    """What to put before a command, so that it runs in the server's network."""
    return ["nsenter", f"--net=/proc/{server.pid}/ns/net"]


def has_mount_service(server: subprocess.Popen) -> bool:
    known = subprocess.run([*beside(server), "rpcinfo", "-p", HOST], capture_output=True,
                           timeout=60, check=False)
    return b"mountd" in known.stdout


def nfs_3(work: str, mount_port: int):
    """With a port mapper, in a network of its own: `beside()`."""
    require_root()
    export, private = directories(work, "nfs-3")
    text = GANESHA_3.format(export=export, mount_port=mount_port)
    words = ["unshare", "--net", "--mount", "sh", "-c", WITH_PORT_MAPPER, "sh",
             "ganesha.nfsd", "-F", "-f", write(os.path.join(private, "conf"), text),
             "-L", os.path.join(private, "log"), "-p", os.path.join(private, "pid")]
    return started(words, 2049, export, private, has_mount_service)


def smb(work: str, user: str):
    """With an account for this user of the host."""
    require_root()
    export, private = directories(work, "smb")
    port = free_port()
    text = SAMBA.format(port=port, export=export, private=private)
    configuration = write(os.path.join(private, "conf"), text)
    subprocess.run(["smbpasswd", "-c", configuration, "-L", "-a", "-s", user], check=True,
                   input=f"{PASSWORD}\n{PASSWORD}\n".encode(), capture_output=True)
    return started(["smbd", "-F", "--no-process-group", "-s", configuration], port, export, private)


def nine_p(work: str):
    require_root()
    export, private = directories(work, "9p")
    port = free_port()
    words = ["diod", "-f", "-n", "-l", f"{HOST}:{port}", "-e", export, "-c", "/dev/null",
             "-L", "stderr"]
    return started(words, port, export, private)


def nbd(work: str, *plugin):
    """nbdkit with this plugin and its words."""
    _, private = directories(work, "nbd")
    port = free_port()
    words = ["nbdkit", "-f", "-i", HOST, "-p", str(port), *plugin]
    return started(words, port, "", private)


class Share:
    """What a server offers to a command: `options` are for the command."""

    def __init__(self, server: Server, form: str, options: tuple = ()):
        self.server, self.form, self.options = server, form, options

    def name(self, port=None) -> str:
        """The name of the file system, also at another port."""
        return self.form.format(f"{HOST}:{port or self.server.port}")


@contextlib.contextmanager
def share(kind: str, work: str):
    """A server of this kind with a directory."""
    user = getpass.getuser()
    start = {"nfs": lambda: nfs(work), "nfs-4.0": lambda: nfs(work, "0"),
             "smb": lambda: smb(work, user), "9p": lambda: nine_p(work)}[kind]
    with start() as server:
        if kind == "smb":
            key = write(os.path.join(work, "key"), PASSWORD + "\n")
            yield Share(server, f"smb://{user}@{{}}/share", ("--key-file", key))
        elif kind == "9p":
            yield Share(server, f"9p://{{}}{server.export}")
        else:
            yield Share(server, "nfs://{}/export")


@contextlib.contextmanager
def silent():
    """A server that accepts connections and never answers: its port."""
    with socket.socket() as server:
        server.bind((HOST, 0))
        server.listen()
        yield server.getsockname()[1]
