// SPDX-License-Identifier: GPL-2.0-only
//! Volumes of servers leave nothing behind: no descriptor, no mapping, no thread. Its own process,
//! since other tests open files and start threads.
#![cfg(feature = "remote")]

use outboard_test_images::nine_p::{NinePShare, FILE};
use outboard_volume::{Cancel, Deadline, Error, ErrorKind, Options, Volume};
use std::fs;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

/// Descriptors of the process, mappings of files without a name, and threads.
fn held() -> [usize; 3] {
    let count = |path: &str| fs::read_dir(path).unwrap().count();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let unnamed = maps
        .lines()
        .filter(|line| line.contains("memfd:") || line.contains("(deleted)"));
    [
        count("/proc/self/fd"),
        unnamed.count(),
        count("/proc/self/task"),
    ]
}

fn options() -> Options {
    Options::new()
        .network("host")
        .server_timeout(Duration::from_secs(1))
}

fn refused(name: &str) -> Error {
    Volume::open(name, options()).expect_err(name)
}

/// Every end of a volume once. `port`: of a server that is silent.
fn all(port: u16, share: &NinePShare) {
    for name in ["nfs://", "smb://", "9p://", "nbd://"].map(|name| format!("{name}127.0.0.1")) {
        let silent = format!("{name}:{port}/e");
        let soon = Deadline::after(Duration::from_millis(100));
        assert_eq!(soon.run(|| refused(&silent)).kind(), ErrorKind::TimedOut);
        let cancel = Cancel::new();
        cancel.cancel();
        let cancelled = cancel.run(|| refused(&silent));
        assert_eq!(cancelled.kind(), ErrorKind::Interrupted);
        // Nothing listens at port 1.
        let closed = refused(&format!("{name}:1/e"));
        assert_eq!(closed.kind(), ErrorKind::Unreachable, "{closed}");
    }
    for end in [NinePShare::fall_silent, NinePShare::end] {
        let tree = Volume::open_writable(share.name(), options()).unwrap();
        let file = tree.open(FILE).unwrap();
        end(share);
        assert!(file.metadata().is_err());
        drop(file);
        let _ = tree.close();
        share.answer();
    }
    let tree = Volume::open(share.name(), options()).unwrap();
    assert!(tree.exists(FILE).unwrap());
    tree.close().unwrap();
    // The descriptors of the server.
    share.end();
}

#[test]
fn volumes_of_servers_leave_nothing_behind() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let share = NinePShare::new();
    // The first errors fill caches of the process.
    all(port, &share);
    let before = held();
    for _ in 0..3 {
        all(port, &share);
    }
    // Threads end a moment after their last work.
    // Each volume has a kernel, of which a process can have 16.
    let volumes = (0..16).map(|_| Volume::open(share.name(), options()).unwrap());
    drop(volumes.collect::<Vec<_>>());
    share.end();
    let is_left = || held() != before;
    let pause = || thread::sleep(Duration::from_millis(10));
    (0..1000).take_while(|_| is_left()).for_each(|_| pause());
    assert_eq!(held(), before);
}
