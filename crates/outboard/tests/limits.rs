// SPDX-License-Identifier: GPL-2.0-only
//! Cancellers and deadlines end calls on files: of a server that is silent, of a disk that hangs.

use outboard::net::{EventSource, UnixStream};
use outboard::{Cancel, Deadline, DiskOptions, Fd, Kernel, Mount, OpenOptions, Stopped, Storage};
use outboard_test_images::nine_p::{NinePServer, FILE};
use std::error::Error;
use std::ffi::CString;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

type TestResult = Result<(), Box<dyn Error>>;

/// Long enough for a call to begin to wait.
const SOON: Duration = Duration::from_millis(100);
/// A guard against hangs, not a measure.
const PATIENCE: Duration = Duration::from_secs(60);

fn boot() -> io::Result<Kernel> {
    Kernel::builder().vcpus(2).memory(256 << 20).boot()
}

fn stopped<T>(result: io::Result<T>) -> Option<Stopped> {
    Stopped::of(&result.err()?)
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Ends a connection when it is dropped.
struct Connection(UnixStream);

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A mount of 9p with its server, in one kernel. A failed test drops the connection first: the
/// unmount does not wait for the server then.
struct Share {
    client: Connection,
    kernel: Kernel,
    mount: Mount,
    server: Arc<NinePServer>,
    thread: JoinHandle<io::Result<()>>,
}

impl Share {
    fn new() -> io::Result<Self> {
        let kernel = boot()?;
        let server = Arc::new(NinePServer::default());
        let (client, theirs) = kernel.net().unix_pair()?;
        let serving = Arc::clone(&server);
        let thread = thread::spawn(move || serving.serve(theirs));
        let number = client.descriptor().raw();
        let options =
            format!("trans=fd,rfdno={number},wfdno={number},version=9p2000.L,cache=mmap,ignoreqv");
        let mount = kernel.mount_remote("9p", c"here", false, &CString::new(options)?)?;
        Ok(Self {
            client: Connection(client),
            kernel,
            mount,
            server,
            thread,
        })
    }

    /// Opens the file. The server is silent from then on.
    fn open_and_silence(&self) -> io::Result<outboard::File> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).open(&self.mount, FILE)?;
        self.server.fall_silent();
        Ok(file)
    }

    /// Unmounts while the server is silent, and ends the kernel.
    fn end(self) -> TestResult {
        // The driver gives an error of its own, or the deadline's.
        let _ = Deadline::after(SOON).run(|| self.mount.unmount());
        drop(self.client);
        let _ = self.thread.join().expect("no panic");
        Ok(self.kernel.halt()?)
    }
}

type Call = (&'static str, fn(&Share, &outboard::File) -> io::Result<()>);

const CALLS: [Call; 9] = [
    ("open", |share, _| share.mount.open(FILE).map(drop)),
    ("read", |_, file| file.read_at(&mut [0; 4096], 0).map(drop)),
    ("read to the end", |share, _| {
        share.mount.read(FILE).map(drop)
    }),
    ("set the length", |_, file| file.set_len(1)),
    ("fsync", |_, file| file.sync_all()),
    ("read the directory", |share, _| {
        share
            .mount
            .read_dir("/")?
            .try_for_each(|entry| entry.map(drop))
    }),
    ("rename", |share, _| share.mount.rename(FILE, "g")),
    ("remove", |share, _| share.mount.remove_file(FILE)),
    ("space", |share, _| share.mount.space().map(drop)),
];

#[test]
fn a_deadline_ends_calls_to_a_silent_server() -> TestResult {
    let share = Share::new()?;
    let file = share.open_and_silence()?;
    for (what, call) in CALLS {
        let result = Deadline::after(SOON).run(|| call(&share, &file));
        assert_eq!(stopped(result), Some(Stopped::TimedOut), "{what}");
    }
    let error = Deadline::after(SOON)
        .run(|| share.mount.metadata(FILE))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    Deadline::after(SOON).run(|| drop(file));
    share.end()
}

#[test]
fn another_thread_ends_calls_to_a_silent_server() -> TestResult {
    let share = Share::new()?;
    let file = share.open_and_silence()?;
    for (what, call) in CALLS {
        let (cancel, before) = (Cancel::new(), share.server.ignored());
        let result = thread::scope(|scope| {
            scope.spawn(|| {
                wait_until(what, || share.server.ignored() > before);
                cancel.cancel();
            });
            cancel.run(|| call(&share, &file))
        });
        assert_eq!(stopped(result), Some(Stopped::Cancelled), "{what}");
        // Later calls do not even begin.
        let before = share.server.ignored();
        let later = cancel.run(|| call(&share, &file));
        assert_eq!(stopped(later), Some(Stopped::Cancelled), "{what}");
        assert_eq!(share.server.ignored(), before, "{what}");
    }
    Deadline::after(SOON).run(|| drop(file));
    share.end()
}

#[test]
fn a_server_that_answers_meets_no_limit() -> TestResult {
    let share = Share::new()?;
    let deadline = Deadline::after(PATIENCE);
    let length = deadline.run(|| share.mount.read(FILE).map(|bytes| bytes.len()))?;
    assert_eq!(length as u64, outboard_test_images::nine_p::SIZE);
    // An abort that comes while nothing waits ends no later call.
    for _ in 0..50 {
        let cancel = Cancel::new();
        thread::scope(|scope| {
            scope.spawn(|| cancel.cancel());
            let _ = cancel.run(|| share.mount.metadata(FILE));
        });
        share.mount.metadata(FILE)?;
        share.mount.open(FILE)?.read_exact(&mut [0; 10])?;
    }
    share.mount.unmount()?;
    drop(share.client);
    let _ = share.thread.join().expect("no panic");
    Ok(share.kernel.halt()?)
}

/// A disk whose reads wait while it hangs.
#[derive(Default)]
struct HangingDisk {
    hangs: Mutex<bool>,
    changed: Condvar,
    waiting: AtomicU64,
}

impl HangingDisk {
    fn hang(&self, hangs: bool) {
        *self.hangs.lock().unwrap() = hangs;
        self.changed.notify_all();
    }
}

impl Storage for HangingDisk {
    fn size(&self) -> u64 {
        64 << 20
    }

    fn read_at(&self, mut pieces: Vec<IoSliceMut<'_>>, _offset: u64) -> io::Result<()> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let hangs = self.hangs.lock().unwrap();
        drop(self.changed.wait_while(hangs, |hangs| *hangs).unwrap());
        pieces.iter_mut().for_each(|piece| piece.fill(7));
        Ok(())
    }

    fn write_at(&self, _pieces: Vec<IoSlice<'_>>, _offset: u64) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _offset: u64, _length: u64) -> io::Result<()> {
        Ok(())
    }

    fn write_zeroes(&self, _offset: u64, _length: u64) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_read_of_a_disk_that_hangs_ends() -> TestResult {
    let (kernel, storage) = (boot()?, Arc::new(HangingDisk::default()));
    let disk = kernel.add_served_disk(storage.clone(), DiskOptions::read_write())?;
    let node = format!("/dev/{}", disk.name());
    let root = Fd::working_directory(kernel.system());
    let device = root.open_at(&CString::new(node)?, 0, 0)?;
    device.read(&mut [0; 512])?;
    storage.hang(true);
    let mut part = [0; 512];
    let late = Deadline::after(SOON).run(|| device.read_at(&mut part, 1 << 20));
    assert_eq!(stopped(late), Some(Stopped::TimedOut));
    let (cancel, before) = (Cancel::new(), storage.waiting.load(Ordering::SeqCst));
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            wait_until("the disk is asked", || {
                storage.waiting.load(Ordering::SeqCst) > before
            });
            cancel.cancel();
        });
        cancel.run(|| device.read_at(&mut part, 32 << 20))
    });
    assert_eq!(stopped(result), Some(Stopped::Cancelled));
    storage.hang(false);
    assert_eq!(device.read_at(&mut part, 1 << 20)?, part.len());
    assert_eq!(part, [7; 512]);
    drop(device);
    drop(disk);
    Ok(kernel.halt()?)
}

#[test]
fn files_close_after_a_stop() -> TestResult {
    let kernel = boot()?;
    let (mut one, other) = kernel.net().unix_pair()?;
    let cancel = Cancel::new();
    cancel.cancel();
    cancel.run(move || drop(other));
    // The other end is closed: the end of the file, not a wait.
    assert_eq!(one.read(&mut [0])?, 0);
    assert!(one.write(b"x").is_err());
    Ok(kernel.halt()?)
}
