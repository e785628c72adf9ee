# SPDX-License-Identifier: GPL-2.0-only
"""`outboard server` at URLs of the network: tcp: with a token, tls: with certificates."""

import os
import socket
import subprocess
import time

import pytest

from support import host, patience, program, programs
from support.kernel_server import KernelServer, serving

PROGRAMS = ("cat", "id")
TOKEN = "a secret of some length"


def free_port():
    """A port that nobody has at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def write_token(path, text=TOKEN, mode=0o600):
    path.write_text(text + "\n", encoding="ascii")
    path.chmod(mode)
    return f"token={path}"


def make_certificates(path):
    made = program.run("certificates", str(path))
    assert made.code == 0, made
    return f"certificates={path}"


@pytest.fixture(scope="module", name="root")
def fixture_root(tmp_path_factory):
    tree = str(tmp_path_factory.mktemp("network") / "root")
    programs.make_root(tree, *PROGRAMS)
    return tree


@pytest.fixture(scope="module", name="proofs")
def fixture_proofs(tmp_path_factory):
    """For each scheme, the right proof and one of somebody else."""
    directory = tmp_path_factory.mktemp("proofs")
    return {
        "tcp": (write_token(directory / "right"), write_token(directory / "wrong", TOKEN + "!")),
        "tls": (make_certificates(directory / "ours"), make_certificates(directory / "theirs")),
    }


@pytest.fixture(scope="module", name="places")
def fixture_places(root, proofs):
    """The URL of each scheme, without its proof, at one server; those of root, too."""
    places = {}
    urls = []
    for scheme, (right, _) in proofs.items():
        for user, name in (("", scheme), (",user=0", scheme + " root")):
            places[name] = f"{scheme}:127.0.0.1:{free_port()}"
            urls.append(f"{places[name]},{right}{user}")
    with serving("--root", root, *urls):
        yield places


def server_at(places, proofs, name, proof=0):
    server = KernelServer("")
    server.url = f"{places[name]},{proofs[name.split()[0]][proof]}"
    return server


@pytest.mark.parametrize("scheme", ("tcp", "tls"))
def test_programs_run_over_a_network(places, proofs, scheme):
    server = server_at(places, proofs, scheme)
    assert server.run("id", "-u").out == "65534\n", "nobody is root over a network by default"
    assert server_at(places, proofs, scheme + " root").run("id", "-u").out == "0\n"
    done = server.run("sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.code, done.out, done.err) == (7, "out\n", "err\n"), done
    data = os.urandom(3_000_001)
    passed = subprocess.run(server.command("cat"), input=data, capture_output=True, timeout=120)
    assert passed.stdout == data and passed.returncode == 0, passed.stderr
    assert server.status()["kernel"].startswith("6.12.")


@pytest.mark.parametrize("scheme", ("tcp", "tls"))
def test_strangers_are_kept_out(places, proofs, scheme):
    stranger = server_at(places, proofs, scheme + " root", proof=1)
    refused = program.run("status", stranger.url)
    assert refused.code == 1 and not refused.out and refused.err.count("\n") == 1, refused
    assert "another authority has made it" in refused.err or "not the token" in refused.err
    assert TOKEN not in refused.err
    # Somebody who speaks neither protocol, and one who says nothing.
    address, port = places[scheme].split(":")[1:]
    with socket.create_connection((address, int(port))) as garbage, \
            socket.create_connection((address, int(port))):
        garbage.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(1000))
        assert server_at(places, proofs, scheme).status()["programs"] == 0


PURPOSE = "extendedKeyUsage=clientAuth\nsubjectAltName=DNS:outboard-client\n"
SETTINGS = """\
[ca]
default_ca = own
[own]
database = index
serial = serial
new_certs_dir = .
default_md = default
policy = any
[any]
commonName = supplied
"""


def make_expired(directory, authority_of):
    """A client's certificate that was good for a moment, of an authority of its own."""
    for name in ("authority", "client"):
        subject, key = f"/CN=expired {name}", f"{directory}/{name}-key.pem"
        host.run("openssl", "req", "-x509" if name == "authority" else "-new", "-newkey",
                 "ed25519", "-nodes", "-subj", subject, "-keyout", key, "-out",
                 f"{directory}/{name}.pem")
        os.chmod(key, 0o600)
    for name, text in (("purpose", PURPOSE), ("index", ""), ("serial", "01\n"),
                       ("settings", SETTINGS)):
        with open(f"{directory}/{name}", "w", encoding="ascii") as file:
            file.write(text)
    host.run("openssl", "ca", "-batch", "-notext", "-config", "settings", "-cert", "authority.pem",
             "-keyfile", "authority-key.pem", "-in", "client.pem", "-extfile", "purpose",
             "-startdate", "20200101000000Z", "-enddate", "20200102000000Z",
             "-out", "expired.pem", cwd=directory)
    os.rename(f"{directory}/expired.pem", f"{directory}/client.pem")
    # The server knows both authorities, and so does the client.
    both = "".join(open(f"{place}/authority.pem", encoding="ascii").read()
                   for place in (authority_of, directory))
    for place in (authority_of, directory):
        with open(f"{place}/authority.pem", "w", encoding="ascii") as file:
            file.write(both)
    return f"certificates={directory}"


@pytest.mark.needs("openssl")
def test_a_certificate_that_is_refused_is_named(root, proofs, tmp_path):
    """By both sides, in one line with the reason."""
    for name in ("own", "expired"):
        (tmp_path / name).mkdir(mode=0o700)
    own = make_certificates(tmp_path / "own")
    expired = make_expired(f"{tmp_path}/expired", f"{tmp_path}/own")
    place, token = f"tls:127.0.0.1:{free_port()}", f"tcp:127.0.0.1:{free_port()}"
    words = program.command("server", "--root", root, f"{place},{own}",
                            f"{token},{proofs['tcp'][0]}")
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        patience.wait_until(lambda: program.run("status", f"{place},{own}").code == 0,
                            "the server serves")
        assert server.stderr
        for url, mine, its in (
                (f"{place},{expired}", f"refuses the certificate {tmp_path}/expired/client.pem: it "
                 "has expired", "the certificate of the client is not good for "
                 f"{tmp_path}/own/authority.pem: it has expired"),
                (f"{place},{proofs['tls'][0]}", "the certificate of the server is not good for ",
                 f"the client refuses the certificate {tmp_path}/own/server.pem: another "),
                (f"{token},{proofs['tcp'][1]}", "not the token", "does not know the token")):
            # The server reports once a second.
            time.sleep(1.1)
            refused = program.run("status", url)
            assert refused.code == 1 and mine in refused.err, refused
            assert refused.err.count("\n") == 1
            assert its in server.stderr.readline()
        server.terminate()
        assert server.wait(timeout=60) == 0


@pytest.mark.parametrize("scheme", ("tcp", "tls"))
def test_others_do_not_end_a_server(places, proofs, scheme):
    server = server_at(places, proofs, scheme)
    refused = server.halt()
    assert refused.code == 1 and "root" in refused.err, refused
    assert server.status()["programs"] == 0


@pytest.mark.parametrize("scheme", ("tcp", "tls"))
def test_halt_over_a_network(root, proofs, scheme):
    place = f"{scheme}:127.0.0.1:{free_port()}"
    right = proofs[scheme][0]
    with serving("--root", root, f"{place},{right},user=0") as server:
        halted = program.run("halt", f"{place},{right}")
        assert (halted.code, halted.out, halted.err) == (0, "", ""), halted
        assert program.run("status", server.url).code == 1


def test_proofs_that_are_no_good_are_named(root, proofs, tmp_path):
    shared = write_token(tmp_path / "shared", mode=0o644)
    short = write_token(tmp_path / "short", "short")
    port = free_port()
    for url, reason in ((f"tcp:127.0.0.1:{port},{shared}", "others may read"),
                        (f"tcp:127.0.0.1:{port},{short}", "16"),
                        (f"tcp:127.0.0.1:{port},token={tmp_path}/none", "none"),
                        (f"tls:127.0.0.1:{port},certificates={tmp_path}", "authority.pem"),
                        (f"tls:127.0.0.1:{port}", "certificates=PATH is missing"),
                        (f"tcp:127.0.0.1,{proofs['tcp'][0]}", "HOST:PORT")):
        refused = program.run("server", "--daemon", "--root", root, url)
        assert refused.code in (1, 2) and reason in refused.err, refused


def test_certificates_are_not_replaced(proofs):
    directory = proofs["tls"][0].partition("=")[2]
    again = program.run("certificates", directory)
    assert again.code == 1 and "authority.pem" in again.err, again
    assert os.stat(f"{directory}/server-key.pem").st_mode & 0o777 == 0o600
