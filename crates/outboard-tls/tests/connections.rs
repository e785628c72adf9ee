// SPDX-License-Identifier: MIT
//! Both ends of connections over the network of this host.

use outboard_protocol::frames::{Frame, Request, RunAnswer};
use outboard_protocol::url::ServerUrl;
use outboard_tls::{connect, make_certificates, NetworkListener, TlsIdentity};
use rustix::net::sockopt;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;
use tempfile::{tempdir, TempDir};

fn certificates() -> TempDir {
    let directory = tempdir().unwrap();
    make_certificates(directory.path()).unwrap();
    directory
}

fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// The plain ends of a client and a server.
fn pair(client: &TempDir, server: &TempDir) -> (UnixStream, UnixStream) {
    let (near, far) = sockets();
    let client = TlsIdentity::read(client.path(), "client").unwrap();
    let server = TlsIdentity::read(server.path(), "server").unwrap();
    (
        client.connect(near).unwrap(),
        server.server().unwrap().accept(far).unwrap(),
    )
}

#[test]
fn many_bytes_pass_both_ways_at_once() {
    let keys = certificates();
    let (client, server) = pair(&keys, &keys);
    let bytes: Vec<u8> = (0..5_000_000_u32)
        .map(|number| (number * 7) as u8)
        .collect();
    thread::scope(|scope| {
        for mut end in [&client, &server] {
            let bytes = &bytes;
            scope.spawn(move || end.write_all(bytes).unwrap());
            scope.spawn(move || {
                let mut read = vec![0; bytes.len()];
                end.read_exact(&mut read).unwrap();
                assert!(read == *bytes);
            });
        }
    });
}

#[test]
fn what_was_sent_before_an_end_arrives() {
    let keys = certificates();
    let (mut client, mut server) = pair(&keys, &keys);
    client.write_all(&[7; 300_000]).unwrap();
    drop(client);
    let mut all = Vec::new();
    server.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 300_000);
}

/// The reason that a client finds in the place of an answer.
fn answer(client: &UnixStream) -> String {
    let frame = Frame::read(&mut &*client).unwrap().expect("an answer");
    match frame.message().unwrap() {
        RunAnswer::Failed { reason, .. } => reason,
        answer => panic!("{answer:?}"),
    }
}

/// Connects to a listener. Returns the reasons of the client and of the server.
fn reasons(listener: &NetworkListener, client: impl FnOnce() -> UnixStream) -> [String; 2] {
    let client = client();
    let connection = listener.accept().unwrap();
    let _ = Frame::send(&mut &client, &Request::Status);
    assert!(Frame::read(&mut &connection.stream)
        .ok()
        .flatten()
        .is_none());
    let told = connection.failure.get().expect("a reason").clone();
    drop(connection);
    [answer(&client), told]
}

#[test]
fn strangers_learn_why_they_are_refused() {
    let (ours, theirs) = (certificates(), certificates());
    let keys = |keys: &TempDir| format!("certificates={}", keys.path().display());
    let (listener, url) = listener("tls", &keys(&ours));
    let other = ServerUrl::parse(format!("{url},{}", keys(&theirs)).into()).unwrap();
    // The client finds that the server is another one, and says so.
    let [client, server] = reasons(&listener, || connect(&other).unwrap());
    let file = |keys: &TempDir, name: &str| keys.path().join(name).display().to_string();
    let wanted = format!(
        "the certificate of the server is not good for {}: another authority has made it",
        file(&theirs, "authority.pem")
    );
    assert_eq!(client, wanted);
    let wanted = format!(
        "the client refuses the certificate {}: another authority has made it",
        file(&ours, "server.pem")
    );
    assert_eq!(server, wanted);
    // A client that knows the authority, and has a certificate of another one.
    fs::copy(
        ours.path().join("authority.pem"),
        theirs.path().join("authority.pem"),
    )
    .unwrap();
    let [client, server] = reasons(&listener, || connect(&other).unwrap());
    let wanted = format!(
        "the server refuses the certificate {}: another authority has made it",
        file(&theirs, "client.pem")
    );
    assert_eq!(client, wanted);
    assert!(
        server.starts_with("the certificate of the client is not good for"),
        "{server}"
    );
    // A server's certificate is none for a client.
    let address = url.to_string();
    let address = address.strip_prefix("tls:").unwrap();
    let wrong = TlsIdentity::read(ours.path(), "server").unwrap();
    let dial = || wrong.connect(TcpStream::connect(address).unwrap()).unwrap();
    let [client, server] = reasons(&listener, dial);
    assert!(
        client.contains("server.pem") && client.contains("other side"),
        "{client}"
    );
    assert!(server.contains("other side"), "{server}");
}

#[test]
fn a_server_that_speaks_no_tls_is_named() {
    let keys = certificates();
    let (near, mut far) = sockets();
    let client = TlsIdentity::read(keys.path(), "client").unwrap();
    let client = client.connect(near).unwrap();
    far.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    let reason = answer(&client);
    assert!(reason.starts_with("no TLS with the server: "), "{reason}");
}

#[test]
fn a_host_that_falls_silent_is_noticed() {
    let directory = tempdir().unwrap();
    let (listener, url) = listener("tcp", &token(&directory, "own", "a secret of some length"));
    let client = connect(&url).unwrap();
    let server = listener.accept().unwrap();
    for socket in [&client, &server.stream] {
        assert!(sockopt::socket_keepalive(socket).unwrap());
        let asks = sockopt::tcp_keepintvl(socket).unwrap() * sockopt::tcp_keepcnt(socket).unwrap();
        let silent = sockopt::tcp_keepidle(socket).unwrap() + asks;
        assert!(silent <= Duration::from_secs(60), "{silent:?}");
        let unanswered = sockopt::tcp_user_timeout(socket).unwrap();
        assert!((1..=60_000).contains(&unanswered), "{unanswered}");
    }
}

#[test]
fn garbage_ends_a_connection() {
    let keys = certificates();
    let (mut near, far) = sockets();
    let server = TlsIdentity::read(keys.path(), "server").unwrap();
    let mut plain = server.server().unwrap().accept(far).unwrap();
    near.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(plain.read(&mut [0]).unwrap(), 0);
}

#[test]
fn keys_are_private_and_nothing_is_replaced() {
    let keys = certificates();
    for name in ["server-key.pem", "client-key.pem"] {
        let mode = fs::metadata(keys.path().join(name)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{name}");
    }
    let before = fs::read(keys.path().join("server-key.pem")).unwrap();
    assert!(make_certificates(keys.path()).is_err());
    assert_eq!(
        fs::read(keys.path().join("server-key.pem")).unwrap(),
        before
    );
}

#[test]
fn a_client_that_says_nothing_is_given_up() {
    let keys = certificates();
    let (near, far) = sockets();
    let server = TlsIdentity::read(keys.path(), "server").unwrap();
    // The plain end has gone before: that is no work for the thread.
    drop(server.server().unwrap().accept(far).unwrap());
    near.set_read_timeout(Some(std::time::Duration::from_secs(60)))
        .unwrap();
    assert_eq!((&near).read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let (ours, theirs) = (certificates(), certificates());
    let server = |name: &str| ours.path().join(name);
    fs::copy(
        theirs.path().join("server-key.pem"),
        server("server-key.pem"),
    )
    .unwrap();
    let mixed = TlsIdentity::read(ours.path(), "server").unwrap();
    assert!(mixed.server().is_err());
    fs::set_permissions(server("server-key.pem"), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(TlsIdentity::read(ours.path(), "server").is_err());
}

#[test]
fn files_that_are_wrong_are_named() {
    let keys = certificates();
    for name in ["authority.pem", "client.pem", "client-key.pem"] {
        let file = keys.path().join(name);
        let before = fs::read(&file).unwrap();
        fs::write(&file, "nothing").unwrap();
        let error = TlsIdentity::read(keys.path(), "client").err().unwrap();
        assert!(error.to_string().contains(name), "{error}");
        fs::write(&file, before).unwrap();
    }
    assert!(TlsIdentity::read(keys.path(), "client").is_ok());
}

/// A listener, and a URL that reaches it. `proof`: what follows the port.
fn listener(scheme: &str, proof: &str) -> (NetworkListener, ServerUrl) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let url = ServerUrl::parse(format!("{scheme}:127.0.0.1:{port},{proof},user=7").into()).unwrap();
    let ServerUrl::Network(network) = &url else {
        panic!("it is of a network");
    };
    (NetworkListener::new(socket, network).unwrap(), url)
}

/// Whether a request of a client arrives.
fn arrives(listener: &NetworkListener, url: &ServerUrl) -> bool {
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            let socket = connect(url).unwrap();
            // The server may have ended the connection.
            let _ = Frame::send(&mut &socket, &Request::Status);
            let _ = (&socket).read(&mut [0]);
        });
        let connection = listener.accept().unwrap();
        assert_eq!(connection.user, (7, 7));
        let frame = || Frame::read(&mut &connection.stream).ok().flatten();
        let request = connection.is_proven().then(frame).flatten();
        drop(connection);
        client.join().unwrap();
        request.is_some_and(|frame| frame.message::<Request>().unwrap() == Request::Status)
    })
}

fn token(directory: &TempDir, name: &str, text: &str) -> String {
    let file = directory.path().join(name);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    format!("token={}", file.display())
}

#[test]
fn a_token_opens_a_server() {
    let directory = tempdir().unwrap();
    let right = token(&directory, "right", "a secret of some length\n");
    let wrong = token(&directory, "wrong", "a secret of some lengtH\n");
    let (listener, url) = listener("tcp", &right);
    assert!(arrives(&listener, &url));
    let other = url.to_string() + "," + &wrong;
    assert!(!arrives(
        &listener,
        &ServerUrl::parse(other.into()).unwrap()
    ));
    assert!(arrives(&listener, &url));
}

#[test]
fn certificates_open_a_server() {
    let (ours, theirs) = (certificates(), certificates());
    let proof = |keys: &TempDir| format!("certificates={}", keys.path().display());
    let (listener, url) = listener("tls", &proof(&ours));
    assert!(arrives(&listener, &url));
    let other = url.to_string() + "," + &proof(&theirs);
    assert!(!arrives(
        &listener,
        &ServerUrl::parse(other.into()).unwrap()
    ));
}
