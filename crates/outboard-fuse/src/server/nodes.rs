// SPDX-License-Identifier: GPL-2.0-only
//! The files that the host knows by number.
//!
//! The host gets a number with each lookup of a name, and may use it until it has dropped as many
//! references. A node holds its file by an `O_PATH` descriptor, whatever happens to its names. Each
//! descriptor keeps an inode in the kernel's memory, and a host may cache a million files. If a
//! file system has persistent handles, only recently used nodes hold descriptors; others keep a
//! handle to open one.
//!
//! A node's number is the inode's, so that stat(2) shows it. If a file system has several devices
//! (subvolumes of btrfs), the upper bits have the index of the device.

use outboard::{Fd, FileHandle};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The number of the root in the FUSE protocol.
pub const ROOT: u64 = 1;
/// Bits of an inode number that fit into a node's.
const INODE_BITS: u32 = 48;
/// The index for an inode with the root's number.
const SHIFTED: u64 = 0xffff;
/// Most nodes with descriptors.
const DESCRIPTORS: usize = 16384;
/// Nodes to check when there are too many descriptors.
const LOOKED_AT: usize = 64;
const SHARDS: usize = 16;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked ends the program, so the lock is never poisoned.
    mutex.lock().expect("no thread panics")
}

enum Held {
    Open(Arc<Fd>),
    Closed(FileHandle),
}

struct Node {
    held: Mutex<Held>,
    /// Whether it was used since the last check for descriptors to close.
    used: AtomicBool,
    /// The host may have pages of it in its cache.
    cached: AtomicBool,
    /// The host shows a size that the file has not.
    misjudged: AtomicBool,
}

struct Known {
    node: Arc<Node>,
    /// Number of references that the host has.
    lookups: u64,
    /// Counts files that had this number one after the other while the host knew it. Also counts
    /// corrections of a wrong size.
    generation: u64,
}

/// A file in an answer to the host.
pub struct AnsweredFile {
    pub id: u64,
    pub generation: u64,
    pub stat: libc::stat,
}

pub struct Nodes {
    shards: [Mutex<HashMap<u64, Known>>; SHARDS],
    root: Arc<Fd>,
    root_inode: u64,
    /// The devices by index.
    devices: Mutex<Vec<u64>>,
    device: u64,
    /// Nodes with descriptors, in the order of opening; `None`: all nodes have one.
    open: Option<Mutex<VecDeque<u64>>>,
}

impl Nodes {
    /// `root` must be open for reading, because an `O_PATH` descriptor cannot open handles.
    /// `handles`: the file system has persistent handles.
    pub fn new(root: Fd, handles: bool) -> io::Result<Self> {
        let stat = root.stat()?;
        let handles = handles && root.handle().is_ok();
        Ok(Self {
            shards: Default::default(),
            root: Arc::new(root),
            root_inode: stat.st_ino,
            devices: Mutex::new(vec![stat.st_dev]),
            device: stat.st_dev,
            open: handles.then(Default::default),
        })
    }

    fn shard(&self, id: u64) -> MutexGuard<'_, HashMap<u64, Known>> {
        lock(&self.shards[id as usize % SHARDS])
    }

    /// The node number of a file. EOVERFLOW: the inode number is too large; no file system in use
    /// has such numbers.
    pub fn number(&self, device: u64, inode: u64) -> io::Result<u64> {
        let place = if device == self.device {
            if inode == self.root_inode {
                return Ok(ROOT);
            }
            if inode == ROOT {
                return Ok(SHIFTED << INODE_BITS | inode);
            }
            0
        } else {
            self.place(device)
        };
        if inode >> INODE_BITS != 0 || place >= SHIFTED || inode == 0 {
            return Err(io::Error::from_raw_os_error(libc::EOVERFLOW));
        }
        Ok(place << INODE_BITS | inode)
    }

    fn place(&self, device: u64) -> u64 {
        let mut devices = lock(&self.devices);
        let found = devices.iter().position(|known| *known == device);
        let place = found.unwrap_or_else(|| {
            devices.push(device);
            devices.len() - 1
        });
        place as u64
    }

    /// The file with this number. ESTALE: the file does not exist any more.
    pub fn get(&self, id: u64) -> io::Result<Arc<Fd>> {
        if id == ROOT {
            return Ok(Arc::clone(&self.root));
        }
        let node = match self.shard(id).get(&id) {
            Some(known) => Arc::clone(&known.node),
            None => return Err(io::Error::from_raw_os_error(libc::ESTALE)),
        };
        node.used.store(true, Ordering::Relaxed);
        let mut held = lock(&node.held);
        let fd = match &*held {
            Held::Open(fd) => return Ok(Arc::clone(fd)),
            Held::Closed(handle) => Arc::new(
                self.root
                    .open_handle(handle, libc::O_PATH | libc::O_NOFOLLOW)?,
            ),
        };
        *held = Held::Open(Arc::clone(&fd));
        drop(held);
        self.opened(id);
        Ok(fd)
    }

    /// Hands the number of a file to the host. The file is open with `O_PATH`.
    pub fn remember(&self, fd: Fd) -> io::Result<AnsweredFile> {
        let stat = fd.stat()?;
        let id = self.number(stat.st_dev, stat.st_ino)?;
        if id == ROOT {
            return Ok(AnsweredFile {
                id,
                generation: 0,
                stat,
            });
        }
        let mut shard = self.shard(id);
        let (generation, opened, unused) = match shard.get_mut(&id) {
            Some(known) => {
                known.lookups += 1;
                let (opened, unused) = renew(known, fd)?;
                (known.generation, opened, unused)
            }
            None => {
                let node = Node {
                    held: Mutex::new(Held::Open(Arc::new(fd))),
                    used: AtomicBool::new(true),
                    cached: AtomicBool::new(false),
                    misjudged: AtomicBool::new(false),
                };
                let known = Known {
                    node: Arc::new(node),
                    lookups: 1,
                    generation: 0,
                };
                shard.insert(id, known);
                (0, true, None)
            }
        };
        drop(shard);
        drop(unused);
        if opened {
            self.opened(id);
        }
        Ok(AnsweredFile {
            id,
            generation,
            stat,
        })
    }

    /// Notes that the host reads data into its page cache, or writes data from there.
    pub fn mark_cached(&self, id: u64) {
        if let Some(known) = self.shard(id).get(&id) {
            known.node.cached.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the host may have pages of a file.
    pub fn is_cached(&self, id: u64) -> bool {
        let shard = self.shard(id);
        let known = shard.get(&id);
        known.is_some_and(|known| known.node.cached.load(Ordering::Relaxed))
    }

    /// Notes that the host shows a wrong size, which it keeps as long as it knows the file.
    pub fn misjudge(&self, id: u64) {
        if let Some(known) = self.shard(id).get(&id) {
            known.node.misjudged.store(true, Ordering::Relaxed);
        }
    }

    /// Call this after `remember`. A file with a wrong size at the host gets a new generation, so
    /// that the host drops all that it knows. Not while the file `is_open`: the host refuses reads
    /// and writes through handles of the old generation.
    pub fn correct(&self, named: &mut AnsweredFile, is_open: impl FnOnce() -> bool) {
        let is_misjudged = |known: &Known| known.node.misjudged.load(Ordering::Relaxed);
        if !self
            .shard(named.id)
            .get(&named.id)
            .is_some_and(is_misjudged)
            || is_open()
        {
            return;
        }
        if let Some(known) = self.shard(named.id).get_mut(&named.id) {
            if known.node.misjudged.swap(false, Ordering::Relaxed) {
                known.generation += 1;
            }
            named.generation = known.generation;
        }
    }

    /// The host drops this many references.
    pub fn forget(&self, id: u64, lookups: u64) {
        let mut shard = self.shard(id);
        let Some(known) = shard.get_mut(&id) else {
            return;
        };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups == 0 {
            let gone = shard.remove(&id);
            drop(shard);
            drop(gone);
        }
    }

    /// Notes a new descriptor, and closes old ones beyond the limit.
    fn opened(&self, id: u64) {
        let Some(open) = &self.open else { return };
        let mut open = lock(open);
        open.push_back(id);
        for _ in 0..LOOKED_AT {
            if open.len() <= DESCRIPTORS {
                return;
            }
            let Some(oldest) = open.pop_front() else {
                return;
            };
            if self.still_needed(oldest) {
                open.push_back(oldest);
            }
        }
    }

    /// Closes the descriptor of a node, unless it was used lately. Returns whether the node still
    /// has it.
    fn still_needed(&self, id: u64) -> bool {
        let Some(node) = self.shard(id).get(&id).map(|known| Arc::clone(&known.node)) else {
            return false;
        };
        if node.used.swap(false, Ordering::Relaxed) {
            return true;
        }
        let mut held = lock(&node.held);
        let Held::Open(fd) = &*held else { return false };
        // A file without names vanishes with its last descriptor.
        let has_name = fd.stat().is_ok_and(|stat| stat.st_nlink > 0);
        match fd.handle() {
            Ok(handle) if has_name && Arc::strong_count(fd) == 1 => {
                *held = Held::Closed(handle);
                false
            }
            _ => true,
        }
    }
}

/// Handles another lookup of a known file. Returns whether its node has taken the descriptor, and
/// the descriptor if not.
fn renew(known: &mut Known, fd: Fd) -> io::Result<(bool, Option<Fd>)> {
    let mut held = lock(&known.node.held);
    let same = match &*held {
        // While a descriptor is open, no other file can have the number.
        Held::Open(_) => return Ok((false, Some(fd))),
        Held::Closed(handle) => *handle == fd.handle()?,
    };
    if !same {
        known.generation += 1;
    }
    *held = Held::Open(Arc::new(fd));
    Ok((true, None))
}
