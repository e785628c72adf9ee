# SPDX-License-Identifier: GPL-2.0-only
"""Linux's NFS server in one kernel, with Debian's tools, and its client in another: the script of
docs/nfs.md as it is, by a user without rights, and what the script does not show.
"""

import hashlib
import os
import shutil
import subprocess

import pytest

from support import debian, host, program
from support.kernel_server import serving
from support.mounts import AS_NOBODY
from support.nobody import as_nobody
from support.servers import free_port

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800), pytest.mark.needs("mmdebstrap")]

PACKAGES = ("krb5-admin-server", "krb5-kdc", "krb5-user", "mount", "nfs-kernel-server", "procps",
            "python3-minimal")
WORDS = ("--variant=apt", f"--include={','.join(PACKAGES)}", "bookworm", "system.tar")
SCRIPT = os.path.join(program.REPOSITORY, "docs", "examples", "nfs.sh")
NO_SANDBOX = "NO SANDBOX"
EXPORT = "/srv/share 10.1.0.0/24(rw,no_root_squash,no_subtree_check)"
# Takes the lock of fcntl(2) of a whole file, or fails.
LOCK = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
# The KDC runs beside the NFS server.
HOSTS = """hostname {}.lab.test
printf '10.1.0.1 server.lab.test\\n10.1.0.2 client.lab.test\\n' >/etc/hosts
cat >/etc/krb5.conf <<END
[libdefaults]
default_realm = LAB.TEST
dns_lookup_kdc = false
dns_canonicalize_hostname = false
rdns = false
[realms]
LAB.TEST = {{
  kdc = 10.1.0.1
}}
[domain_realm]
.lab.test = LAB.TEST
END
mkdir -p /run/rpc_pipefs
mount -t rpc_pipefs sunrpc /run/rpc_pipefs
"""
KDC = """set -e
kdb5_util create -s -r LAB.TEST -P master
for host in server client; do
	kadmin.local addprinc -randkey nfs/$host.lab.test
	kadmin.local ktadd -k /run/$host.keytab nfs/$host.lab.test
done
cp /run/server.keytab /etc/krb5.keytab
krb5kdc
"""
SERVICES = {
    "4.2": ([], ["--no-nfs-version", "3"]),
    "3": (["rpcbind", "rpc.statd"], []),
}


@pytest.fixture(scope="module", name="image")
def fixture_image(tmp_path_factory):
    image = os.path.join(str(tmp_path_factory.mktemp("nfs")), "debian.img")
    program.good("mkfs", "ext4", image, "--from", debian.system(list(WORDS), []), "--size", "2G",
                 timeout=600)
    yield image
    os.unlink(image)


def good(server, *words):
    done = server.run(*words, timeout=300)
    assert (done.code, done.err) == (0, ""), done
    return done.out


def check(overlay, work):
    """The file system of an overlay is clean."""
    host.run("qemu-img", "check", overlay)
    plain = os.path.join(work, "plain.img")
    host.run("qemu-img", "convert", "-O", "raw", overlay, plain)
    assert "clean" in host.run("e2fsck", "-n", plain).stdout
    host.run("e2fsck", "-fn", plain)
    os.unlink(plain)


@pytest.mark.needs_root
@pytest.mark.needs("qemu-img")
def test_the_script_of_the_documentation(image, tmp_path):
    with as_nobody() as nobody:
        own = shutil.copy(image, os.path.join(nobody.directory, "debian.img"))
        script = shutil.copy(SCRIPT, nobody.directory)
        done = subprocess.run(
            [*AS_NOBODY, f"PATH={nobody.directory}:{os.environ['PATH']}", "bash", script, own],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=600, check=False, text=True)
        assert done.returncode == 0, done
        overlay = f"{own}.nfs.qcow2"
        check(overlay, tmp_path)
        assert program.good("cat", f"{overlay}:/srv/share/date").out == done.stdout
        assert "268435456" in program.good("stat", f"{overlay}:/srv/share/zeros").out


def serve(server, version, export=EXPORT):
    """Starts the services."""
    before, words = SERVICES[version]
    good(server, "sh", "-c", f"mkdir -p /srv/share && echo '{export}' >/etc/exports")
    for service in before:
        good(server, service)
    good(server, "mount", "-t", "nfsd", "nfsd", "/proc/fs/nfsd")
    good(server, "exportfs", "-ra")
    good(server, "rpc.mountd", *words)
    good(server, "rpc.nfsd", *words, "4")
    good(server, "sh", "-c", "echo Y >/proc/fs/nfsd/v4_end_grace")


def mount(client, version):
    for service in SERVICES[version][0]:
        good(client, service)
    good(client, "mount", "-t", "nfs", "-o", f"vers={version}", "10.1.0.1:/srv/share", "/mnt")
    assert f"vers={version}," in good(client, "grep", " /mnt nfs", "/proc/mounts")


@pytest.fixture(name="pair", params=sorted(SERVICES))
def fixture_pair(request, image, tmp_path):
    """A server, a client that has mounted its export, and the file with the server's changes."""
    segment, overlay = tmp_path / "segment", str(tmp_path / "server.qcow2")
    with (serving("--no-sandbox", "--overlay", overlay, "--net", f"hub:{segment},ip=10.1.0.1/24",
                  image, warning=NO_SANDBOX) as server,
          serving("--no-sandbox", "--net", f"hub:{segment},ip=10.1.0.2/24", image,
                  warning=NO_SANDBOX) as client):
        serve(server, request.param)
        mount(client, request.param)
        yield server, client, overlay


def digest(server, path):
    return good(server, "sha256sum", path).split()[0]


def test_files_go_both_ways(pair, tmp_path):
    """Contents, names, owners and modes; and both kernels' caches see the other's changes."""
    server, client, _ = pair
    noise = os.urandom(8 << 20)
    sent = subprocess.run(client.command("sh", "-c", "cat >/mnt/noise"), input=noise, timeout=120,
                          check=False)
    assert sent.returncode == 0
    assert digest(server, "/srv/share/noise") == hashlib.sha256(noise).hexdigest()
    good(server, "sh", "-c", "cat /srv/share/noise /srv/share/noise >/srv/share/twice")
    assert digest(client, "/mnt/twice") == hashlib.sha256(noise * 2).hexdigest()
    good(client, "sh", "-c", "mkdir /mnt/d && mv /mnt/noise /mnt/d/moved && ln -s moved /mnt/d/l "
                             "&& chown 1000:1001 /mnt/d/moved && chmod 640 /mnt/d/moved")
    assert good(server, "stat", "-Lc", "%u %g %a %s", "/srv/share/d/l") == "1000 1001 640 8388608\n"
    assert good(server, "ls", "/srv/share") == "d\ntwice\n"
    listing = client.run("ls", "/mnt/d", options=("--user", "7"))
    assert listing.out == "l\nmoved\n", listing
    denied = client.run("cat", "/mnt/d/moved", options=("--user", "7"))
    assert denied.code == 1 and "Permission denied" in denied.err, denied


def test_locks_hold_between_kernels(pair):
    """A lock of a client's program keeps programs of both kernels off, until it ends."""
    server, client, _ = pair
    good(client, "touch", "/mnt/file")
    holder = subprocess.Popen(client.command("flock", "/mnt/file", "sh", "-c", "echo held; cat"),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    assert client.run("flock", "--nonblock", "/mnt/file", "true").code == 1
    refused = server.run("python3", "-c", LOCK, "/srv/share/file")
    assert refused.code == 1 and "BlockingIOError" in refused.err, refused
    holder.stdin.close()
    assert holder.wait(60) == 0
    good(server, "python3", "-c", LOCK, "/srv/share/file")


@pytest.mark.needs("qemu-img")
def test_a_server_ends_before_its_client(pair, image, tmp_path):
    """Its services run, and a client has a file open: the image is clean, and the client ends."""
    server, client, overlay = pair
    good(client, "sh", "-c", "echo durable >/mnt/file; "
                             "exec 3>>/mnt/file; setsid sleep 1000 >/dev/null 2>&1 </dev/null &")
    assert server.halt().code == 0
    check(overlay, tmp_path)
    kept = program.good("cat", "--backing", image, f"{overlay}:/srv/share/file")
    assert kept.out == "durable\n"
    assert client.halt().code == 0


def test_a_port_of_the_host_leads_to_the_server(image, tmp_path):
    """In the sandbox: another kernel mounts it, and a command reads and writes there."""
    port = free_port()
    insecure = EXPORT.replace("10.1.0.0/24(", "10.0.2.0/24(insecure,")
    with (serving("-p", f"{port}:2049", image) as server,
          serving("--net", "user,host-loopback", image) as client):
        serve(server, "4.2", insecure)
        good(client, "mount", "-t", "nfs4", "-o", f"port={port}", "10.0.2.2:/srv/share", "/mnt")
        good(client, "sh", "-c", "echo of a client >/mnt/file")
        share = f"nfs://127.0.0.1:{port}/srv/share"
        assert program.good("cat", f"{share}:/file").out == "of a client\n"
        own = tmp_path / "own"
        own.write_text("of a command\n")
        program.good("cp", own, f"{share}:/own")
        assert good(client, "cat", "/mnt/own") == "of a command\n"


def test_a_directory_of_the_host_is_exported(image, tmp_path):
    """Over the loopback device of one kernel. Linux exports no overlayfs."""
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "of-the-host").write_text("before\n")
    with serving("--net", "none", "--bind", f"{shown}:/srv/share", image) as server:
        serve(server, "4.2", "/srv/share 127.0.0.1(rw,no_root_squash,no_subtree_check,fsid=1)")
        good(server, "mount", "-t", "nfs4", "127.0.0.1:/srv/share", "/mnt")
        assert good(server, "cat", "/mnt/of-the-host") == "before\n"
        good(server, "sh", "-c", "echo new >/mnt/new; umount /mnt")
        assert (shown / "new").read_text() == "new\n"
        good(server, "sh", "-c", "mkdir /run/u /run/w /srv/o && mount -t overlay -o "
                                 "lowerdir=/usr,upperdir=/run/u,workdir=/run/w o /srv/o")
        refused = server.run("exportfs", "127.0.0.1:/srv/o")
        assert "does not support NFS export" in refused.err, refused


def start_kerberos(server, client):
    """Gives both kernels names and keys of a realm, and starts their daemons."""
    good(server, "sh", "-c", HOSTS.format("server"))
    good(client, "sh", "-c", HOSTS.format("client"))
    made = server.run("sh", "-c", KDC)
    assert made.code == 0, made
    key = subprocess.run(server.command("cat", "/run/client.keytab"), capture_output=True,
                         timeout=60, check=True).stdout
    subprocess.run(client.command("sh", "-c", "cat >/etc/krb5.keytab"), input=key, timeout=60,
                   check=True)
    good(server, "rpc.idmapd")
    good(server, "rpc.svcgssd", "-n")
    good(client, "rpc.gssd", "-n")
    good(client, "kinit", "-k", "nfs/client.lab.test")


@pytest.mark.parametrize("security", ["krb5", "krb5i", "krb5p"])
def test_kerberos(image, tmp_path, security):
    """Tickets prove who a client is, and krb5p encrypts what passes between the kernels."""
    segment, capture = tmp_path / "segment", tmp_path / "capture.pcapng"
    with (serving("--no-sandbox", "--net", f"hub:{segment},ip=10.1.0.1/24,pcap={capture}", image,
                  warning=NO_SANDBOX) as server,
          serving("--no-sandbox", "--net", f"hub:{segment},ip=10.1.0.2/24", image,
                  warning=NO_SANDBOX) as client):
        serve(server, "4.2", f"/srv/share *(rw,no_subtree_check,sec={security})")
        start_kerberos(server, client)
        good(server, "chmod", "1777", "/srv/share")
        refused = client.run("mount", "-t", "nfs4", "-o", "sec=sys", "10.1.0.1:/srv/share", "/mnt")
        assert refused.code != 0, refused
        good(client, "mount", "-t", "nfs4", "-o", f"sec={security}", "server.lab.test:/srv/share",
             "/mnt")
        good(client, "sh", "-c", "echo a text that passes >/mnt/file")
        assert good(server, "cat", "/srv/share/file") == "a text that passes\n"
    assert (b"a text that passes" in capture.read_bytes()) == (security != "krb5p")
