// SPDX-License-Identifier: GPL-2.0-only
//! Servers: good ones, and those that refuse, are silent, or end under an open handle. Needs
//! mke2fs and qemu-nbd.
#![cfg(feature = "remote")]

use outboard_test_images::nine_p::{NinePShare, FILE, SIZE};
use outboard_test_images::{check_ext4, text, Work};
use outboard_volume::{Cancel, Deadline, Disk, Error, ErrorKind, Hint, Options, Volume};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

type Result = std::result::Result<(), Box<dyn std::error::Error>>;

const SOON: Duration = Duration::from_millis(300);
const FORMS: [&str; 4] = [
    "nfs://127.0.0.1:{}/e",
    "smb://127.0.0.1:{}/s",
    "9p://127.0.0.1:{}/",
    "nbd://127.0.0.1:{}/d",
];

/// The names of something on a server at this port, by all protocols.
fn names(port: u16) -> impl Iterator<Item = String> {
    FORMS
        .iter()
        .map(move |form| form.replace("{}", &port.to_string()))
}

/// The kernel's sockets are the host's own: no NAT needs to be installed.
fn options() -> Options {
    Options::new().network("host")
}

fn refused(name: &str, options: Options) -> Error {
    Volume::open(name, options).expect_err(name)
}

/// A listener whose clients get no answer, and its port.
fn silent() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// An NBD server of an image; killed when it is dropped.
struct NbdServer {
    process: Child,
    port: u16,
}

impl NbdServer {
    fn of(image: &Path) -> Self {
        let (listener, port) = silent();
        drop(listener);
        let port_text = port.to_string();
        let words = [
            "-t",
            "-f",
            "raw",
            "-b",
            "127.0.0.1",
            "-p",
            &port_text,
            text(image),
        ];
        let started = Command::new("qemu-nbd")
            .args(words)
            .stdout(Stdio::null())
            .spawn();
        let process = started.expect("qemu-nbd");
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            thread::sleep(Duration::from_millis(10));
        }
        Self { process, port }
    }

    fn name(&self) -> String {
        format!("nbd://127.0.0.1:{}", self.port)
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn a_tree_is_read() -> Result {
    let share = NinePShare::new();
    let tree = Volume::open(share.name(), options())?;
    assert_eq!(tree.name(), share.name().as_str());
    assert_eq!(tree.kind(), "9p");
    assert_eq!(tree.metadata(FILE)?.len(), SIZE);
    assert_eq!(tree.read_dir("/")?.count(), 0);
    tree.close()?;
    Volume::open_writable(share.name(), options())?.close()?;
    let disk = Disk::open(share.name(), options()).expect_err("it is no disk");
    assert_eq!(disk.kind(), ErrorKind::Usage, "{disk}");
    Ok(())
}

#[test]
fn a_disk_is_read_and_written() -> Result {
    let work = Work::new();
    let image = work.ext4("image");
    let server = NbdServer::of(&image);
    let disk = Disk::open_writable(server.name(), options())?;
    assert_eq!((disk.format()?, disk.size()?), ("raw", 64 << 20));
    assert_eq!(disk.volumes()?[0].kind(), Some("ext4"));
    let volume = disk.volume_writable("")?;
    let locked = disk.volume("").expect_err("it is written");
    assert_eq!(locked.kind(), ErrorKind::Locked, "{locked}");
    volume.write("/new", volume.read("/d/hello")?)?;
    volume.close()?;
    disk.close()?;
    let volume = Volume::open(server.name(), options())?;
    assert_eq!(volume.read_to_string("/new")?, "Hello, kernel");
    volume.close()?;
    drop(server);
    check_ext4(&image);
    Ok(())
}

#[test]
fn a_port_without_a_server() {
    let (listener, port) = silent();
    drop(listener);
    for name in names(port) {
        let error = refused(&name, options());
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert!(error.message().contains("refused"), "{error}");
        assert_eq!(error.path(), Some(Path::new(&name)));
    }
}

#[test]
fn names_and_passwords() {
    for name in ["nfs:///e", "smb://h", "smb://a:b@h/s", "nbd://h:0"] {
        assert_eq!(refused(name, options()).kind(), ErrorKind::Usage, "{name}");
    }
    let share = "smb://ann@127.0.0.1/share";
    let error = refused(share, options());
    assert_eq!(error.kind(), ErrorKind::KeyNeeded, "{error}");
    assert_eq!(error.hint(), Some(&Hint::Password));
    let error = refused(share, options().key(&[b'x'; 513]));
    assert!(error.message().contains("512 bytes"), "{error}");
    let error = refused("9p://127.0.0.1/", Options::new().network("nothing"));
    assert!(error.message().contains("network"), "{error}");
}

#[test]
fn a_silent_server_is_unreachable() {
    let (_listener, port) = silent();
    for name in names(port).filter(|name| !name.starts_with("smb")) {
        let error = refused(&name, options().server_timeout(Duration::from_millis(1)));
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert_eq!(error.hint(), Some(&Hint::Timeout), "{error}");
    }
}

#[test]
fn limits_of_the_caller_end_the_wait_for_a_silent_server() {
    let (_listener, port) = silent();
    for name in names(port) {
        let late = Deadline::after(SOON).run(|| refused(&name, options()));
        assert_eq!(late.kind(), ErrorKind::TimedOut, "{late}");
        assert_eq!(late.path(), Some(Path::new(&name)));
        let cancel = Cancel::new();
        let cancelled = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(SOON);
                cancel.cancel();
            });
            cancel.run(|| refused(&name, options()))
        });
        assert_eq!(cancelled.kind(), ErrorKind::Interrupted, "{cancelled}");
    }
}

#[test]
fn a_server_that_falls_silent() -> Result {
    let share = NinePShare::new();
    let options = options().server_timeout(Duration::from_secs(1));
    let tree = Volume::open_writable(share.name(), options)?;
    let file = tree.open(FILE)?;
    share.fall_silent();
    let read = Deadline::after(SOON).run(|| file.read_at(&mut [0; 4096], 0));
    assert_eq!(ErrorKind::of(&read.unwrap_err()), ErrorKind::TimedOut);
    // Without a limit of the caller, that of the server ends the call and all later ones.
    let read = file.read_at(&mut [0; 4096], 0).unwrap_err();
    assert_eq!(ErrorKind::of(&read), ErrorKind::Unreachable, "{read}");
    assert!(tree.metadata(FILE).is_err());
    drop(file);
    let _ = tree.close();
    Ok(())
}

#[test]
fn a_read_that_was_cancelled_ends_no_connection() -> Result {
    let share = NinePShare::new();
    let options = options().server_timeout(Duration::from_secs(1));
    let tree = Volume::open(share.name(), options)?;
    let file = tree.open(FILE)?;
    share.ignore_reads();
    let read = Deadline::after(SOON).run(|| file.read_at(&mut [0; 4096], 0));
    assert_eq!(ErrorKind::of(&read.unwrap_err()), ErrorKind::TimedOut);
    // The server will never answer the read. The limit of an answer passes meanwhile.
    thread::sleep(Duration::from_secs(3));
    assert_eq!(tree.metadata(FILE)?.len(), SIZE);
    drop(file);
    tree.close()?;
    Ok(())
}

#[test]
fn a_server_that_ends() -> Result {
    let share = NinePShare::new();
    let tree = Volume::open(share.name(), options())?;
    share.end();
    assert!(tree.metadata(FILE).is_err());
    let _ = tree.close();
    let work = Work::new();
    let mut server = NbdServer::of(&work.ext4("image"));
    let volume = Volume::open_writable(server.name(), options())?;
    volume.write("/new", "text")?;
    server.end();
    assert!(volume.read("/d/noise").is_err());
    assert!(volume.sync().is_err());
    let closed = volume.close().expect_err("something is missing");
    assert!(closed.message().contains("not everything"), "{closed}");
    Ok(())
}

#[test]
fn a_call_that_has_no_time_opens_nothing() {
    let share = NinePShare::new();
    let passed = Deadline::from(Instant::now());
    let late = passed.run(|| refused(&share.name(), options()));
    assert_eq!(late.kind(), ErrorKind::TimedOut, "{late}");
}
