// SPDX-License-Identifier: GPL-2.0-only
//! The bytes of an archive that is being read.
//!
//! A thread reads and decompresses ahead, into a limited number of buffers. Threads that write
//! files get pieces of them without a copy. A buffer is reused when no thread has a piece of it any
//! more.

use super::compression::decompressed;
use super::header::BLOCK;
use super::polled::Gone;
use outboard::Limits;
use outboard_error::{Error, Failure, Notes, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::containers::read_block;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::Scope;
use std::time::Duration;

/// Bytes of a buffer: whole blocks.
const SIZE: usize = 256 << 10;
/// Number of buffers.
const BUFFERS: usize = 40;
/// Number of buffers that the reader fills ahead.
const AHEAD: usize = 4;
/// Interval of checks for an interrupt while the input is empty.
const PATIENCE: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Free {
    buffers: Vec<Vec<u8>>,
    made: usize,
}

/// The free buffers.
#[derive(Default)]
struct Pool {
    free: Mutex<Free>,
    returned: Condvar,
}

impl Pool {
    /// A buffer, after waiting for one.
    fn take(&self) -> Vec<u8> {
        let mut free = self.free.lock().expect("no thread panics");
        loop {
            if let Some(buffer) = free.buffers.pop() {
                return buffer;
            }
            if free.made < BUFFERS {
                free.made += 1;
                return vec![0; SIZE];
            }
            free = self.returned.wait(free).expect("no thread panics");
        }
    }
}

/// A buffer with bytes of the archive; dropping it returns it to the pool.
struct Buffer {
    bytes: Vec<u8>,
    used: usize,
    pool: Arc<Pool>,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Ok(mut free) = self.pool.free.lock() {
            free.buffers.push(std::mem::take(&mut self.bytes));
        }
        self.pool.returned.notify_one();
    }
}

/// Some bytes of the archive.
pub struct ArchivePiece {
    buffer: Arc<Buffer>,
    start: usize,
    end: usize,
}

impl Deref for ArchivePiece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer.bytes[self.start..self.end]
    }
}

/// Why reading stops.
#[derive(Debug)]
pub enum StopReason {
    /// The archive ends before it should.
    End,
    Failed(io::Error),
    /// The input is no archive, or an invalid one: the reason.
    Nonsense(String),
    /// The user wants to stop, or the writers failed.
    Asked,
}

/// Bytes, or why there are none.
type Taken<T> = std::result::Result<T, StopReason>;

pub struct Stream {
    /// `None` only while it is dropped.
    filled: Option<Receiver<io::Result<Buffer>>>,
    current: Option<Arc<Buffer>>,
    /// The buffers behind it that were looked at.
    ahead: VecDeque<Buffer>,
    /// Position in the current buffer.
    taken: usize,
    offset: u64,
    /// Bytes read of the input, which may be compressed.
    input: Arc<AtomicU64>,
    interrupt: Interrupt,
    gone: Gone,
}

fn read_ahead(mut input: impl Read, filled: &SyncSender<io::Result<Buffer>>) {
    let pool = Arc::new(Pool::default());
    loop {
        let mut bytes = pool.take();
        let result = read_block(&mut input, &mut bytes);
        let used = *result.as_ref().unwrap_or(&0);
        let pool = Arc::clone(&pool);
        let buffer = result.map(|used| Buffer { bytes, used, pool });
        if filled.send(buffer).is_err() || used < SIZE {
            return;
        }
    }
}

impl Drop for Stream {
    /// Ends the thread: now if its input polls, else after its read.
    fn drop(&mut self) {
        self.gone.set();
        self.current = None;
        self.ahead.clear();
        self.filled = None;
    }
}

impl Stream {
    /// Opens an input, which may be compressed, in the thread of `scope` that reads it: its first
    /// bytes may arrive late, or never. `position` counts the bytes read of the input; an input
    /// that polls looks at `gone`; `name` is for messages.
    pub fn open<'scope>(
        scope: &'scope Scope<'scope, '_>,
        input: Box<dyn Read + Send + 'scope>,
        name: &str,
        position: Arc<AtomicU64>,
        interrupt: &Interrupt,
        gone: Gone,
    ) -> Result<Self> {
        let (sender, opened) = sync_channel(1);
        let text = name.to_owned();
        let open = move || {
            let (input, result) = match decompressed(input, &text) {
                Ok(input) => (Some(input), Ok(())),
                Err(error) => (None, Err(error)),
            };
            let _ = sender.send(result);
            input
        };
        let stream = Self::start(scope, open, position, interrupt.clone(), gone);
        loop {
            if interrupt.asked() {
                let text = format!("interrupted: no byte of {name} was unpacked");
                return Err(Error::Interrupted(text));
            }
            match opened.recv_timeout(PATIENCE) {
                Ok(result) => return result.map(|()| stream),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Failed(format!(
                        "cannot read {name}: its thread ended"
                    )))
                }
            }
        }
    }

    fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        open: impl FnOnce() -> Option<Box<dyn Read + Send + 'scope>> + Send + 'scope,
        position: Arc<AtomicU64>,
        interrupt: Interrupt,
        gone: Gone,
    ) -> Self {
        let (sender, filled) = sync_channel(AHEAD);
        let notes = Notes::current();
        let limits = Limits::current();
        scope.spawn(move || {
            let _limits = limits.enter();
            let read = || {
                if let Some(input) = open() {
                    read_ahead(input, &sender);
                }
            };
            match notes {
                Some(notes) => notes.collect(read),
                None => read(),
            }
        });
        Self {
            filled: Some(filled),
            current: None,
            ahead: VecDeque::new(),
            taken: 0,
            offset: 0,
            input: position,
            interrupt,
            gone,
        }
    }

    /// Number of bytes taken.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Position in the input.
    pub fn position(&self) -> u64 {
        self.input.load(Ordering::Relaxed)
    }

    fn next_buffer(&mut self) -> Taken<Option<Buffer>> {
        match self.ahead.pop_front() {
            Some(buffer) => Ok(Some(buffer)),
            None => self.receive(),
        }
    }

    fn receive(&mut self) -> Taken<Option<Buffer>> {
        let filled = self.filled.as_ref().expect("there until it is dropped");
        loop {
            // Headers may be long: check for an interrupt.
            if self.interrupt.asked() {
                return Err(StopReason::Asked);
            }
            match filled.recv_timeout(PATIENCE) {
                Ok(Ok(buffer)) => return Ok(Some(buffer).filter(|buffer| buffer.used > 0)),
                Ok(Err(error)) => return Err(StopReason::Failed(error)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// The next bytes, at most so many and at least one. `None`: there are no more.
    fn next(&mut self, most: u64) -> Taken<Option<ArchivePiece>> {
        let buffer = match &self.current {
            Some(buffer) if self.taken < buffer.used => Arc::clone(buffer),
            _ => {
                self.current = None;
                let Some(buffer) = self.next_buffer()? else {
                    return Ok(None);
                };
                self.taken = 0;
                Arc::clone(self.current.insert(Arc::new(buffer)))
            }
        };
        let start = self.taken;
        let length = ((buffer.used - start) as u64).min(most) as usize;
        self.taken += length;
        self.offset += length as u64;
        let end = start + length;
        Ok(Some(ArchivePiece { buffer, start, end }))
    }

    /// The next bytes, at most so many and at least one.
    pub fn take(&mut self, most: u64) -> Taken<ArchivePiece> {
        self.next(most)?.ok_or(StopReason::End)
    }

    /// A block. `None`: the end of the archive.
    pub fn block(&mut self) -> Taken<Option<[u8; BLOCK]>> {
        let Some(first) = self.next(BLOCK as u64)? else {
            return Ok(None);
        };
        let mut block = [0; BLOCK];
        block[..first.len()].copy_from_slice(&first);
        if first.len() < BLOCK {
            return Err(StopReason::End);
        }
        Ok(Some(block))
    }

    /// The block that begins so many bytes behind the next byte, which stays the next. `None`: the
    /// archive ends before the end of the block. All buffers up to it stay in memory.
    pub fn peek_block(&mut self, distance: u64) -> Taken<Option<[u8; BLOCK]>> {
        // All buffers but the last are full of whole blocks, and members begin at a block.
        let here = self.current.as_ref().map_or(SIZE, |_| self.taken);
        let start = here as u64 + distance;
        let (index, start) = (
            (start / SIZE as u64) as usize,
            (start % SIZE as u64) as usize,
        );
        while self.ahead.len() < index {
            let Some(buffer) = self.receive()? else {
                return Ok(None);
            };
            self.ahead.push_back(buffer);
        }
        let buffer = match index.checked_sub(1) {
            Some(index) => self.ahead.get(index),
            None => self.current.as_deref(),
        };
        let used = buffer.map_or(&[][..], |buffer| &buffer.bytes[..buffer.used]);
        let block = used.get(start..start + BLOCK);
        Ok(block.and_then(|block| block.try_into().ok()))
    }

    /// Exactly this many bytes.
    pub fn bytes(&mut self, mut count: u64) -> Taken<Vec<u8>> {
        let mut bytes = Vec::new();
        while count > 0 {
            let piece = self.take(count)?;
            bytes.extend_from_slice(&piece);
            count -= piece.len() as u64;
        }
        Ok(bytes)
    }

    pub fn skip(&mut self, mut count: u64) -> Taken<()> {
        while count > 0 {
            count -= self.take(count)?.len() as u64;
        }
        Ok(())
    }

    /// Reads the bytes behind the archive's end: errors of decompression may appear only there, and
    /// a program that writes into a pipe must not get SIGPIPE.
    pub fn drain(&mut self) -> Taken<()> {
        while self.next(u64::MAX)?.is_some() {}
        Ok(())
    }
}

/// An input that counts the bytes read. It marks its own errors as failures ([`Failure`]): a
/// decompressor passes them on, and its own errors mean a damaged archive.
pub struct Counted<R> {
    pub input: R,
    pub count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self
            .input
            .read(buffer)
            .map_err(|error| match error.kind() {
                io::ErrorKind::Interrupted => error,
                _ => Failure::of(&error).into(),
            })?;
        self.count.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_stream(bytes: &[u8], work: impl FnOnce(Stream)) {
        std::thread::scope(|scope| {
            let (position, gone, never) = (Arc::default(), Gone::default(), Interrupt::default());
            let input = Box::new(bytes);
            work(Stream::open(scope, input, "it", position, &never, gone).unwrap());
        });
    }

    #[test]
    fn more_bytes_than_buffers() {
        let bytes: Vec<u8> = (0..3 * SIZE + 700).map(|index| (index / 5) as u8).collect();
        with_stream(&bytes, |mut stream| {
            assert_eq!(stream.block().unwrap().unwrap(), bytes[..BLOCK]);
            let all = stream.bytes((3 * SIZE) as u64).unwrap();
            assert!(all == bytes[BLOCK..3 * SIZE + BLOCK]);
            assert_eq!(stream.offset(), (3 * SIZE + BLOCK) as u64);
            assert!(matches!(stream.block(), Err(StopReason::End)));
        });
    }

    #[test]
    fn blocks_are_looked_at() {
        let blocks = 2 * SIZE / BLOCK;
        let bytes: Vec<u8> = (0..blocks).flat_map(|index| [index as u8; BLOCK]).collect();
        with_stream(&[&bytes[..], &[1; 100]].concat(), |mut stream| {
            for next in 0..blocks {
                for index in [next, next + 1, blocks - 1, blocks, 2 * blocks] {
                    let block = stream.peek_block(((index - next) * BLOCK) as u64).unwrap();
                    let wanted = (index < blocks).then_some([index as u8; BLOCK]);
                    assert!(block == wanted, "{index} from {next}");
                }
                assert!(stream.block().unwrap() == Some([next as u8; BLOCK]));
            }
            assert!(stream.peek_block(0).unwrap().is_none());
            assert!(stream.bytes(100).unwrap() == [1; 100]);
        });
    }

    #[test]
    fn the_end() {
        with_stream(&[1; BLOCK], |mut stream| {
            assert!(stream.block().unwrap().is_some());
            assert!(stream.block().unwrap().is_none());
            assert!(matches!(stream.skip(1), Err(StopReason::End)));
        });
    }
}
