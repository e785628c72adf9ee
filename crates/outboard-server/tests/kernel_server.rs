// SPDX-License-Identifier: GPL-2.0-only
//! A kernel of a program, served at URLs.

use outboard::{errno, Kernel};
use outboard_protocol::client::{ClientAnswer, ClientRequest, VERSION};
use outboard_protocol::frames::{Frame, ProgramRequest, Request, RunAnswer};
use outboard_protocol::url::ServerUrl;
use outboard_server::{ClientLimits, InsideUser, KernelServer, PeerRules};
use serde::de::DeserializeOwned;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use tempfile::{tempdir, TempDir};

/// Begins a connection.
fn ask<T: DeserializeOwned>(mut socket: &UnixStream, request: &Request) -> T {
    Frame::send(&mut socket, request).unwrap();
    let answer = Frame::read(&mut socket).unwrap();
    answer.expect("there is an answer").message().unwrap()
}

fn client() -> Request {
    Request::Client(ClientRequest {
        version: VERSION,
        name: "test".to_owned(),
        ticket: None,
        slots: false,
    })
}

/// A connection that has become a process of the kernel.
fn attach(path: &Path) -> UnixStream {
    let socket = UnixStream::connect(path).unwrap();
    let answer: ClientAnswer = ask(&socket, &client());
    assert!(
        matches!(answer, ClientAnswer::Attached { .. }),
        "{answer:?}"
    );
    socket
}

/// Waits for the end of a connection. One that was not served yet may get a last answer.
fn wait_for_end(mut socket: &UnixStream) {
    let _ = socket.read_to_end(&mut Vec::new());
}

fn url(directory: &TempDir, name: &str) -> String {
    format!("unix:{}", directory.path().join(name).display())
}

fn start(kernel: &Kernel) -> KernelServer {
    KernelServer::start(kernel, ClientLimits::default()).unwrap()
}

fn refusal(path: &Path, request: &Request) -> String {
    match ask(&UnixStream::connect(path).unwrap(), request) {
        RunAnswer::Failed { reason, .. } => reason,
        answer => panic!("{answer:?}"),
    }
}

/// Serves at a socket of the directory, by the default rules.
fn listen(server: &KernelServer, directory: &TempDir, name: &str) {
    server
        .listen(url(directory, name), &PeerRules::default())
        .unwrap();
}

#[test]
fn an_end_ends_all() {
    let kernel = Kernel::builder().boot().unwrap();
    let directory = tempdir().unwrap();
    let path = directory.path().join("a");
    let server = start(&kernel);
    listen(&server, &directory, "a");
    listen(&server, &directory, "b");
    let client = attach(&path);
    // One that never says anything.
    let silent = UnixStream::connect(directory.path().join("b")).unwrap();
    assert_eq!(server.clients().len(), 1);
    drop(server);
    wait_for_end(&client);
    wait_for_end(&silent);
    assert!(fs::read_dir(directory.path()).unwrap().next().is_none());
    // The kernel goes on, and can be served again.
    assert!(kernel.check().is_ok());
    let again = start(&kernel);
    listen(&again, &directory, "a");
    drop(attach(&path));
}

#[test]
fn a_halt_ends_all() {
    let kernel = Kernel::builder().boot().unwrap();
    let directory = tempdir().unwrap();
    let server = start(&kernel);
    listen(&server, &directory, "a");
    let client = attach(&directory.path().join("a"));
    kernel.halt().unwrap();
    wait_for_end(&client);
    assert!(fs::read_dir(directory.path()).unwrap().next().is_none());
    let error = server.listen(url(&directory, "a"), &PeerRules::default());
    assert_eq!(errno(&error.unwrap_err()), Some(libc::ENODEV));
    assert!(server.clients().is_empty());
}

#[test]
fn requests_are_those_of_a_server() {
    let kernel = Kernel::builder().boot().unwrap();
    let directory = tempdir().unwrap();
    let path = directory.path().join("a");
    let server = start(&kernel);
    listen(&server, &directory, "a");
    let _client = attach(&path);
    match ask(&UnixStream::connect(&path).unwrap(), &Request::Status) {
        RunAnswer::Status(status) => {
            assert_eq!((status.clients, status.programs), (1, 0));
            assert_eq!(status.host_process, std::process::id());
        }
        answer => panic!("{answer:?}"),
    }
    match ask(&UnixStream::connect(&path).unwrap(), &Request::Processes) {
        RunAnswer::Processes(rows) => {
            let own = std::process::id() as i32;
            assert_eq!(
                (rows.len(), rows[0].user, rows[0].host_process),
                (1, 0, own)
            );
        }
        answer => panic!("{answer:?}"),
    }
    assert!(refusal(&path, &Request::Run(ProgramRequest::default())).contains("no programs"));
    assert!(refusal(&path, &Request::Halt).contains(&std::process::id().to_string()));
}

#[test]
fn places_are_checked() {
    let kernel = Kernel::builder().boot().unwrap();
    let directory = tempdir().unwrap();
    let (server, other) = (start(&kernel), start(&kernel));
    let listen = |server: &KernelServer, url: &str| server.listen(url, &PeerRules::default());
    let number = |url: &str| errno(&listen(&server, url).unwrap_err());
    assert_eq!(number("unix"), Some(libc::EINVAL));
    assert_eq!(number("tcp:127.0.0.1:0"), Some(libc::EINVAL));
    assert_eq!(number("unix:/none/a"), Some(libc::ENOENT));
    assert_eq!(
        number(&format!("unix:/{}", "x".repeat(200))),
        Some(libc::ENAMETOOLONG)
    );
    // A killed server has left its socket.
    let left = directory.path().join("left");
    drop(UnixListener::bind(&left).unwrap());
    listen(&server, &url(&directory, "left")).unwrap();
    let mode = fs::metadata(&left).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for server in [&server, &other] {
        let error = listen(server, &url(&directory, "left")).unwrap_err();
        assert_eq!(errno(&error), Some(libc::EADDRINUSE), "{error}");
    }
    // A file that is no socket stays.
    let file = directory.path().join("file");
    fs::write(&file, "text").unwrap();
    assert!(listen(&server, &url(&directory, "file")).is_err());
    assert_eq!(fs::read(&file).unwrap(), b"text");
    // With a rule, all may connect; the rule decides.
    let nobody = InsideUser { user: 9, group: 9 };
    let rules = PeerRules::new(vec![(1234, nobody)]);
    server.listen(url(&directory, "shared"), &rules).unwrap();
    let shared = fs::metadata(directory.path().join("shared")).unwrap();
    assert_eq!(shared.permissions().mode() & 0o777, 0o666);
}

#[test]
fn a_network_has_users_without_rights() {
    let kernel = Kernel::builder().boot().unwrap();
    let directory = tempdir().unwrap();
    let token = directory.path().join("token");
    fs::write(&token, "a secret of some length\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let server = start(&kernel);
    let url = |port: u16| format!("tcp:127.0.0.1:{port},token={}", token.display());
    let address = server.listen(url(0), &PeerRules::default()).unwrap();
    let far = ServerUrl::parse(url(address.unwrap().port()).into()).unwrap();
    let client_socket = outboard_tls::connect(&far).unwrap();
    let answer: ClientAnswer = ask(&client_socket, &client());
    assert!(matches!(answer, ClientAnswer::Attached { .. }));
    match ask(&outboard_tls::connect(&far).unwrap(), &Request::Processes) {
        RunAnswer::Processes(rows) => assert_eq!(rows[0].user, 65534),
        answer => panic!("{answer:?}"),
    }
    let log: RunAnswer = ask(&outboard_tls::connect(&far).unwrap(), &Request::Log);
    assert!(matches!(log, RunAnswer::Failed { .. }));
    drop(server);
    wait_for_end(&client_socket);
}
