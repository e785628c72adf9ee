// SPDX-License-Identifier: GPL-2.0-only
//! Helpers that all tests of the network need.

use outboard::net::Net;
use outboard::{Fd, Kernel};
use std::io::{self, Read, Write};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

pub const ECANCELED: i32 = 125;
pub const EEXIST: i32 = 17;
pub const EINVAL: i32 = 22;
pub const ENODEV: i32 = 19;
pub const EXDEV: i32 = 18;
pub const O_RDONLY: i32 = 0;
pub const O_WRITE_NEW: i32 = 0o1101;

/// A guard against hangs, not a measure.
pub const PATIENCE: Duration = Duration::from_secs(300);

pub fn boot() -> io::Result<Kernel> {
    Kernel::builder().vcpus(2).memory(256 << 20).boot()
}

/// A new kernel whose `lo` is up.
pub fn net() -> io::Result<Net> {
    let net = boot()?.net();
    net.set_up("lo")?;
    Ok(net)
}

pub fn number<T>(result: io::Result<T>) -> Option<i32> {
    result.err().as_ref().and_then(outboard::errno)
}

pub fn kind<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
    result.err().map(|error| error.kind())
}

/// Bytes that differ at every place and with every seed.
pub fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..size).map(|_| next()).collect()
}

pub fn read_file(kernel: &Kernel, path: &str) -> io::Result<String> {
    let path = std::ffi::CString::new(path)?;
    let file = Fd::working_directory(kernel.system()).open_at(&path, O_RDONLY, 0)?;
    let mut text = vec![0; 64 << 10];
    let length = file.read(&mut text)?;
    text.truncate(length);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Writes a file below /etc, which a new kernel does not have.
pub fn write_file(kernel: &Kernel, path: &str, text: &str) -> io::Result<()> {
    let path = std::ffi::CString::new(path)?;
    let root = Fd::working_directory(kernel.system());
    match root.make_directory_at(c"/etc", 0o755) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let file = root.open_at(&path, O_WRITE_NEW, 0o644)?;
    file.write_all(text.as_bytes())
}

/// Waits until a condition holds.
pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a thread of the kernel sleeps in a call.
fn sleeps(kernel: &Kernel, thread: i32) -> bool {
    let stat = read_file(kernel, &format!("/proc/self/task/{thread}/stat"));
    stat.is_ok_and(|stat| stat.rsplit(')').next().unwrap_or("").starts_with(" S"))
}

/// Runs `work` in a thread, `meanwhile` when it sleeps in a call, and returns its result.
pub fn while_blocked<T: Send>(
    kernel: &Kernel,
    work: impl FnOnce() -> T + Send,
    meanwhile: impl FnOnce(),
) -> T {
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let worker = scope.spawn(move || {
            let thread = kernel.thread().expect("the kernel runs");
            sender.send(thread).expect("the other thread waits");
            work()
        });
        let thread = receiver.recv_timeout(PATIENCE).expect("it starts");
        wait_until("the thread blocks", || {
            worker.is_finished() || sleeps(kernel, thread)
        });
        assert!(!worker.is_finished(), "it did not block");
        meanwhile();
        worker.join().expect("no panic")
    })
}

/// Sends bytes through one end and checks that they arrive at the other, in both directions.
pub fn exchange<S: Read + Write + Send>(mut one: S, mut other: S, size: usize) -> io::Result<()> {
    let (there, back) = (noise(1, size), noise(2, size));
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let mut received = vec![0; size];
            other.read_exact(&mut received)?;
            assert!(received == there, "other bytes arrive");
            other.write_all(&back)
        });
        one.write_all(&there)?;
        let mut received = vec![0; size];
        one.read_exact(&mut received)?;
        assert!(received == back, "other bytes come back");
        server.join().expect("no panic")
    })
}
