// SPDX-License-Identifier: GPL-2.0-only
//! Transfers from a server that falls silent end by a canceller or a deadline, and leave nothing
//! that looks whole.

use outboard::net::{EventSource, UnixStream};
use outboard::{Cancel, Deadline, Kernel, Mount};
use outboard_test_images::nine_p::{NinePServer, FILE};
use outboard_transfer::{ErrorKind, Format, Transfer};
use outboard_volume::HostTree;
use std::ffi::CString;
use std::fs;
use std::io;
use std::net::Shutdown;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

type TestResult = Result<(), Box<dyn std::error::Error>>;

const SOON: Duration = Duration::from_millis(500);

/// Ends a connection when it is dropped.
struct Connection(UnixStream);

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A mount of 9p in a kernel. The connection ends first: then the unmount does not wait.
struct Share {
    _client: Connection,
    mount: Mount,
    server: Arc<NinePServer>,
}

impl Share {
    fn new() -> io::Result<Self> {
        let kernel = Kernel::builder().vcpus(2).memory(256 << 20).boot()?;
        let server = Arc::new(NinePServer::default());
        let (client, theirs) = kernel.net().unix_pair()?;
        let serving = Arc::clone(&server);
        thread::spawn(move || serving.serve(theirs));
        let number = client.descriptor().raw();
        let options =
            format!("trans=fd,rfdno={number},wfdno={number},version=9p2000.L,cache=mmap,ignoreqv");
        let mount = kernel.mount_remote("9p", c"here", true, &CString::new(options)?)?;
        Ok(Self {
            _client: Connection(client),
            mount,
            server,
        })
    }

    /// A transfer during which the server falls silent.
    fn transfer(&self) -> Transfer {
        let server = Arc::clone(&self.server);
        Transfer::new().on_progress(move |count| {
            if count.bytes > 0 {
                server.fall_silent();
            }
            ControlFlow::Continue(())
        })
    }
}

#[test]
fn a_copy_ends_at_its_deadline() -> TestResult {
    let (share, work) = (Share::new()?, tempfile::tempdir()?);
    let copy = work.path().join("copy");
    let late = Deadline::after(SOON);
    let copied = late.run(|| share.transfer().copy(&share.mount, FILE, &HostTree, &copy));
    let error = copied.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(error.message().contains("deadline"), "{error}");
    assert_eq!(
        fs::read_dir(work.path())?.count(),
        0,
        "a part of a file stays"
    );
    Ok(())
}

#[test]
fn a_cancelled_copy_ends() -> TestResult {
    let (share, work) = (Share::new()?, tempfile::tempdir()?);
    let (copy, cancel) = (work.path().join("copy"), Cancel::new());
    let transfer = share.transfer().cancel(&cancel);
    let copied = thread::scope(|scope| {
        scope.spawn(|| {
            while share.server.ignored() == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            cancel.cancel();
        });
        transfer.copy(&share.mount, FILE, &HostTree, &copy)
    });
    let error = copied.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert_eq!(
        fs::read_dir(work.path())?.count(),
        0,
        "a part of a file stays"
    );
    Ok(())
}

#[test]
fn an_archive_ends_at_its_deadline() -> TestResult {
    let share = Share::new()?;
    share.server.fall_silent();
    let late = Deadline::after(SOON);
    let packed = late.run(|| {
        let (mount, archive) = (&share.mount, tempfile::tempfile()?);
        Transfer::new()
            .pack_file(mount, "/", &archive, Format::Plain)
            .map_err(io::Error::from)
    });
    let error = packed.unwrap_err();
    assert_eq!(ErrorKind::of(&error), ErrorKind::TimedOut, "{error}");
    Ok(())
}
