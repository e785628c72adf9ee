// SPDX-License-Identifier: GPL-2.0-only
//! A stretch of an archive: the parts that one thread encodes, and that the writer gets in order.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// Bytes of a chunk.
pub const CHUNK: usize = 512 * 1024;

/// Bytes of the archive; the first ones are used.
pub struct Chunk {
    pub bytes: Vec<u8>,
    pub used: usize,
}

/// A file with several names; the first name in the archive gets the bytes.
pub struct Linked {
    pub path: Vec<u8>,
    pub stat: libc::stat,
    /// It is a hard link: its bytes are not needed.
    pub skip: AtomicBool,
}

/// A part of a stretch.
pub enum StretchPart {
    Bytes(Chunk),
    /// The next chunks belong to a file with several names.
    Begin(Arc<Linked>),
    End,
    /// Zeros in place of this many unreadable bytes of a file. The writer limits them.
    Padding(u64, String),
}

/// Chunks to reuse.
#[derive(Default)]
pub struct Chunks {
    free: Mutex<Vec<Vec<u8>>>,
}

impl Chunks {
    /// An empty chunk.
    pub fn take(&self) -> Chunk {
        let bytes = self.free.lock().expect("no thread panics").pop();
        Chunk {
            bytes: bytes.unwrap_or_else(|| vec![0; CHUNK]),
            used: 0,
        }
    }

    pub fn give(&self, chunk: Chunk) {
        self.free
            .lock()
            .expect("no thread panics")
            .push(chunk.bytes);
    }
}
