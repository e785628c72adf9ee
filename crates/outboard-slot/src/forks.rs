// SPDX-License-Identifier: MIT
//! Counts the forks of this process, and closes the connections of its parent in a child: as long
//! as a child has one, the other end would not see that the parent has ended.

use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};
use std::sync::Once;

static FORKS: AtomicU64 = AtomicU64::new(0);
static SOCKETS: AtomicPtr<Entry> = AtomicPtr::new(std::ptr::null_mut());

/// An entry that waits for its next descriptor.
const FREE: i32 = -1;
/// One that is about to get a descriptor.
const TAKEN: i32 = -2;
/// An entry for all descriptors of a socket.
const ALL: i32 = -3;

/// A descriptor to be closed in a child. Entries are never freed, but used again: a child may look
/// at them at any time.
struct Entry {
    /// Or one of the above.
    number: AtomicI32,
    inode: AtomicU64,
    next: Option<&'static Entry>,
}

fn status(number: i32) -> Option<libc::stat> {
    // SAFETY: all-zero is valid for the structure.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call.
    let found = unsafe { libc::fstat(number, &mut status) } == 0;
    found.then_some(status)
}

/// The inode of a descriptor.
pub fn inode(number: i32) -> Option<u64> {
    status(number).map(|status| status.st_ino)
}

/// All entries.
fn entries() -> impl Iterator<Item = &'static Entry> {
    // SAFETY: entries are never freed, and only read.
    let first = unsafe { SOCKETS.load(Ordering::Acquire).as_ref() };
    std::iter::successors(first, |entry| entry.next)
}

/// In a child of fork(2), where only functions that are safe in a signal handler may be called.
extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    close_all();
    for entry in entries() {
        let number = entry.number.swap(FREE, Ordering::Acquire);
        // The program may have closed it, and opened something else.
        if number >= 0 && inode(number) == Some(entry.inode.load(Ordering::Relaxed)) {
            // SAFETY: it is the connection of the parent, which nobody uses in the child.
            unsafe { libc::close(number) };
        }
    }
}

/// Closes all descriptors of sockets for which there is an entry. The C library has its memory in
/// order before it calls this.
fn close_all() {
    let is_whole = |entry: &&Entry| {
        let order = Ordering::Acquire;
        entry
            .number
            .compare_exchange(ALL, FREE, order, order)
            .is_ok()
    };
    let whole = entries().filter(is_whole);
    let mut inodes: Vec<u64> = whole
        .map(|entry| entry.inode.load(Ordering::Relaxed))
        .collect();
    if inodes.is_empty() {
        return;
    }
    inodes.sort_unstable();
    for number in descriptors() {
        if socket_inode(number).is_some_and(|inode| inodes.binary_search(&inode).is_ok()) {
            // SAFETY: it is the connection of the parent, which nobody uses in the child.
            unsafe { libc::close(number) };
        }
    }
}

/// The descriptors of this process.
fn descriptors() -> Vec<i32> {
    let files = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let number =
        |file: std::io::Result<std::fs::DirEntry>| file.ok()?.file_name().to_str()?.parse().ok();
    files.filter_map(number).collect()
}

/// The inode of a descriptor that is a socket.
fn socket_inode(number: i32) -> Option<u64> {
    let status = status(number)?;
    (status.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(status.st_ino)
}

/// All descriptors of a socket, which children of fork(2) close, until this is dropped.
#[derive(Debug)]
pub struct ClosedInChildren {
    inode: u64,
}

impl ClosedInChildren {
    /// `number`: a descriptor of the socket. `None`: it is no socket.
    pub fn of(number: i32) -> Option<Self> {
        let inode = socket_inode(number)?;
        add(ALL, inode);
        Some(Self { inode })
    }
}

impl Drop for ClosedInChildren {
    fn drop(&mut self) {
        let order = Ordering::Relaxed;
        let is_own = |entry: &&Entry| entry.inode.load(order) == self.inode;
        for entry in entries().filter(is_own) {
            let freed = entry.number.compare_exchange(ALL, FREE, order, order);
            if freed.is_ok() {
                return;
            }
        }
    }
}

/// How often this process was forked off, as far as this library was in use then.
pub fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// Closes a descriptor in children of fork(2), until [`forget`].
pub fn close_in_children(number: i32, inode: u64) {
    add(number, inode);
}

/// Adds an entry. `number`: a descriptor, or [`ALL`].
fn add(number: i32, inode: u64) {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the function calls only what is safe in a child. This library is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    let order = Ordering::Relaxed;
    let is_free = |entry: &&Entry| {
        let taken = entry.number.compare_exchange(FREE, TAKEN, order, order);
        taken.is_ok()
    };
    match entries().find(is_free) {
        Some(entry) => {
            entry.inode.store(inode, order);
            entry.number.store(number, Ordering::Release);
        }
        None => push(number, inode),
    }
}

fn push(number: i32, inode: u64) {
    let mut first = SOCKETS.load(Ordering::Acquire);
    let entry = Box::leak(Box::new(Entry {
        number: AtomicI32::new(number),
        inode: AtomicU64::new(inode),
        next: None,
    }));
    loop {
        // SAFETY: entries are never freed, and only read.
        entry.next = unsafe { first.as_ref() };
        let order = Ordering::AcqRel;
        match SOCKETS.compare_exchange(first, entry, order, Ordering::Acquire) {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
}

/// A descriptor of this process is about to be closed.
pub fn forget(number: i32) {
    for entry in entries() {
        let order = Ordering::Relaxed;
        if entry
            .number
            .compare_exchange(number, FREE, order, order)
            .is_ok()
        {
            return;
        }
    }
}
