// SPDX-License-Identifier: GPL-2.0-only
//! Packs a tree into an archive.
//!
//! One thread walks the tree ([`PackedTree`]) and collects files in batches. Several threads encode
//! batches, each into a stretch of the archive ([`Packer`]). One thread writes the stretches in
//! their order ([`StretchWriter`]). Each stretch has a short channel of its own. So memory is
//! bounded, and the thread with the first stretch never has to wait.

use super::packer::Packer;
use super::stretches::StretchWriter;
use super::tree::{PackItem, PackStart, PackedTree};
use crate::cp::queue::Queue;
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex};

/// Items of a batch.
const BATCH: usize = 32;
/// Batches ahead of the writer.
const AHEAD: usize = 16;
/// Bytes of a chunk.
pub const CHUNK: usize = 512 * 1024;
/// Chunks of a batch that may wait.
const CHUNKS: usize = 2;

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

struct Batch {
    items: Vec<PackItem>,
    out: SyncSender<StretchPart>,
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

/// Packs trees into an archive. An error is a write error.
pub fn pack(
    tree: &PackedTree,
    starts: Vec<PackStart>,
    threads: u32,
    output: &mut impl Write,
) -> io::Result<()> {
    let chunks = Chunks::default();
    let queue: Queue<Batch> = Queue::new(AHEAD);
    std::thread::scope(|scope| {
        let (order, stretches) = sync_channel(AHEAD);
        scope.spawn(|| {
            let _closing = queue.closing();
            give_batches(tree, starts, &queue, order);
        });
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let _breaking = queue.breaking();
                while let Some(batch) = queue.take() {
                    let chunk = chunks.take();
                    let mut packer = Packer {
                        tree,
                        report: tree.report,
                        chunks: &chunks,
                        chunk,
                        out: &batch.out,
                    };
                    // The writer may have stopped, and reports why.
                    let _ = packer.run(&batch.items);
                }
            });
        }
        let mut writer = StretchWriter::new(output, &chunks, tree.report);
        writer.run(&stretches)?;
        // After an interrupt or a panic the stretches end too early, without an error.
        if tree.interrupt.asked() || queue.is_broken() {
            return Err(io::Error::from(io::ErrorKind::Interrupted));
        }
        writer.finish()
    })
}

fn give_batches(
    tree: &PackedTree,
    starts: Vec<PackStart>,
    queue: &Queue<Batch>,
    order: SyncSender<Receiver<StretchPart>>,
) {
    let mut items = Vec::new();
    let send = |items: Vec<PackItem>| {
        let (out, stretch) = sync_channel(CHUNKS);
        queue.give(Batch { items, out }) && order.send(stretch).is_ok()
    };
    tree.for_each(starts, &mut |item| {
        items.push(item);
        items.len() < BATCH || send(std::mem::take(&mut items))
    });
    if !items.is_empty() {
        send(items);
    }
}
