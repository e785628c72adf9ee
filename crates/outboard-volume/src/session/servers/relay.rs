// SPDX-License-Identifier: GPL-2.0-only
//! Passes messages of 9p on between the kernel's client and a server. The client waits for an
//! answer without an end. So the relay follows the headers of messages, and ends the connection
//! when a whole answer has not arrived in time: all calls of the client then fail.

use super::thread::ServerThread;
use super::watch::limit_of_answer;
use outboard::net::{TcpStream, UnixStream};
use outboard::Kernel;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that are passed on at once: the largest message.
const PIECE: usize = 128 << 10;
/// How often the relay looks for a request that is late.
const LOOK: Duration = Duration::from_secs(1);

/// The type of the request that ends another one.
const FLUSH: u8 = 108;

/// A message, as far as the relay knows it.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    /// An answer has the tag of its request.
    tag: u16,
    /// The tag of the request that this one ends.
    flushed: Option<u16>,
}

/// Follows the messages of one direction. Each begins with its size in 4 bytes, its type in one,
/// its tag in two; in a flush, two more have the tag of the request that it ends.
#[derive(Default)]
struct Messages {
    begin: [u8; Self::BEGIN],
    /// Bytes of the current message.
    taken: usize,
}

impl Messages {
    const HEADER: usize = 7;
    /// Most bytes that the relay keeps of a message.
    const BEGIN: usize = 9;

    /// The size of a message whose header is there.
    fn size(&self) -> usize {
        let [a, b, c, d, ..] = self.begin;
        u32::from_le_bytes([a, b, c, d]) as usize
    }

    /// The message, which is whole.
    fn message(&self) -> Message {
        let [_, _, _, _, kind, low, high, flushed_low, flushed_high] = self.begin;
        let flushes = kind == FLUSH && self.size() >= Self::BEGIN;
        Message {
            tag: u16::from_le_bytes([low, high]),
            flushed: flushes.then(|| u16::from_le_bytes([flushed_low, flushed_high])),
        }
    }

    /// Takes the next bytes, and calls `each` with messages that end there. An error: a message is
    /// shorter than its header.
    fn take(&mut self, mut bytes: &[u8], mut each: impl FnMut(Message)) -> io::Result<()> {
        while !bytes.is_empty() {
            let until = if self.taken < Self::HEADER {
                Self::HEADER
            } else {
                self.size().min(Self::BEGIN)
            };
            let of_begin = until.saturating_sub(self.taken).min(bytes.len());
            let start = self.taken.min(Self::BEGIN);
            self.begin[start..start + of_begin].copy_from_slice(&bytes[..of_begin]);
            self.taken += of_begin;
            bytes = &bytes[of_begin..];
            if self.taken < Self::HEADER {
                return Ok(());
            }
            let size = self.size();
            if size < Self::HEADER {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if self.taken < size.min(Self::BEGIN) {
                continue;
            }
            let of_rest = (size - self.taken).min(bytes.len());
            self.taken += of_rest;
            bytes = &bytes[of_rest..];
            if self.taken == size {
                self.taken = 0;
                each(self.message());
            }
        }
        Ok(())
    }
}

/// Requests without an answer, by their tags.
#[derive(Default)]
struct OpenRequests {
    sent: HashMap<u16, Instant>,
    /// Of each flush, the tag of the request that it ends.
    flushed: HashMap<u16, u16>,
    /// One of them had no answer in time.
    is_late: bool,
}

impl OpenRequests {
    fn begin(&mut self, request: &Message, now: Instant) {
        self.sent.insert(request.tag, now);
        if let Some(flushed) = request.flushed {
            self.flushed.insert(request.tag, flushed);
        }
    }

    fn end(&mut self, answer: &Message) {
        self.sent.remove(&answer.tag);
        // A server that has answered a flush does not answer the other request any more.
        if let Some(flushed) = self.flushed.remove(&answer.tag) {
            self.sent.remove(&flushed);
        }
    }

    fn age(&self, now: Instant) -> Duration {
        let ages = self.sent.values().map(|sent| now.duration_since(*sent));
        ages.max().unwrap_or_default()
    }
}

struct Ends {
    client: UnixStream,
    server: TcpStream,
    limit: Duration,
    requests: Mutex<OpenRequests>,
}

impl Ends {
    fn requests(&self) -> MutexGuard<'_, OpenRequests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn disconnect(&self) {
        // An end that is gone already is no error.
        let _ = self.server.shutdown(Shutdown::Both);
        let _ = self.client.shutdown(Shutdown::Both);
    }

    /// Passes requests on until an end is gone.
    fn pass_requests(&self) -> io::Result<()> {
        let mut buffer = vec![0; PIECE];
        let mut messages = Messages::default();
        loop {
            let length = match read(&self.client, &mut buffer)? {
                Some(0) => return Ok(()),
                Some(length) => length,
                None => continue,
            };
            // Before they are sent: an answer may come at once.
            messages.take(&buffer[..length], |request| {
                self.requests().begin(&request, Instant::now());
            })?;
            (&self.server).write_all(&buffer[..length])?;
        }
    }

    /// Passes answers on until an end is gone, or an answer is late.
    fn pass_answers(&self) -> io::Result<()> {
        let mut buffer = vec![0; PIECE];
        let mut messages = Messages::default();
        while !self.look() {
            let length = match read(&self.server, &mut buffer)? {
                Some(0) => return Ok(()),
                Some(length) => length,
                None => continue,
            };
            messages.take(&buffer[..length], |answer| {
                self.requests().end(&answer);
            })?;
            (&self.client).write_all(&buffer[..length])?;
        }
        Ok(())
    }

    /// Whether a request is late.
    fn look(&self) -> bool {
        let mut requests = self.requests();
        requests.is_late |= requests.age(Instant::now()) >= limit_of_answer(self.limit);
        requests.is_late
    }
}

/// `None`: nothing has come so far.
fn read(mut from: impl Read, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match from.read(buffer) {
        Ok(length) => Ok(Some(length)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Ends with its connection.
pub(in crate::session) struct Relay {
    ends: Arc<Ends>,
    _threads: [ServerThread; 2],
}

impl Relay {
    /// Stands before a server. Returns the client's end, too.
    pub(super) fn start(
        kernel: &Kernel,
        server: TcpStream,
        limit: Duration,
    ) -> io::Result<(Self, UnixStream)> {
        let (client, theirs) = kernel.net().unix_pair()?;
        server.set_nodelay(true)?;
        server.set_read_timeout(Some(LOOK))?;
        server.set_write_timeout(Some(limit))?;
        let ends = Arc::new(Ends {
            client,
            server,
            limit,
            requests: Mutex::default(),
        });
        let start = |pass: fn(&Ends) -> io::Result<()>| {
            let ends = Arc::clone(&ends);
            ServerThread::start(kernel, move || {
                // The client learns of an error by the end of its connection.
                let _ = pass(&ends);
                ends.disconnect();
            })
        };
        let requests = start(Ends::pass_requests)?;
        let answers = start(Ends::pass_answers).inspect_err(|_| ends.disconnect())?;
        let relay = Self {
            ends,
            _threads: [requests, answers],
        };
        Ok((relay, theirs))
    }

    /// Whether the connection was ended because an answer was late.
    pub(super) fn is_late(&self) -> bool {
        self.ends.requests().is_late
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // Then its threads end.
        self.ends.disconnect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u16, body: usize) -> Vec<u8> {
        let mut bytes = ((Messages::HEADER + body) as u32).to_le_bytes().to_vec();
        bytes.push(100);
        bytes.extend(tag.to_le_bytes());
        bytes.resize(Messages::HEADER + body, 0xff);
        bytes
    }

    #[test]
    fn messages_end_where_their_sizes_say() {
        let stream = [message(1, 0), message(0xffff, 300), message(7, 1)].concat();
        for piece in [1, 2, 6, 7, 8, 300, stream.len()] {
            let mut messages = Messages::default();
            let mut tags = Vec::new();
            for part in stream.chunks(piece) {
                messages
                    .take(part, |message| tags.push(message.tag))
                    .unwrap();
            }
            assert_eq!(tags, [1, 0xffff, 7], "pieces of {piece}");
        }
        let mut messages = Messages::default();
        let mut count = 0;
        messages.take(&stream[..306], |_| count += 1).unwrap();
        assert_eq!(count, 1, "the second one is not whole");
    }

    #[test]
    fn a_size_below_that_of_the_header_is_an_error() {
        for size in [0_u32, 6] {
            let mut bytes = message(1, 0);
            bytes[..4].copy_from_slice(&size.to_le_bytes());
            assert!(Messages::default().take(&bytes, |_| {}).is_err());
        }
    }

    fn flush(tag: u16, flushed: u16) -> Vec<u8> {
        let mut bytes = message(tag, 2);
        bytes[4] = FLUSH;
        bytes[Messages::HEADER..].copy_from_slice(&flushed.to_le_bytes());
        bytes
    }

    #[test]
    fn a_flush_names_another_request() {
        let mut short = message(4, 0);
        short[4] = FLUSH;
        let stream = [message(1, 1), flush(2, 1), short, flush(3, 0x1234)].concat();
        for piece in [1, 7, 8, 9, stream.len()] {
            let mut messages = Messages::default();
            let mut flushed = Vec::new();
            for part in stream.chunks(piece) {
                let note = |message: Message| flushed.push(message.flushed);
                messages.take(part, note).unwrap();
            }
            assert_eq!(
                flushed,
                [None, Some(1), None, Some(0x1234)],
                "pieces of {piece}"
            );
        }
    }

    #[test]
    fn an_answer_to_a_flush_ends_two_requests() {
        let request = |tag, flushed| Message { tag, flushed };
        let now = Instant::now();
        let mut requests = OpenRequests::default();
        requests.begin(&request(1, None), now);
        requests.begin(&request(2, None), now);
        requests.begin(&request(3, Some(1)), now);
        requests.end(&request(3, None));
        assert_eq!(requests.sent.keys().collect::<Vec<_>>(), [&2]);
        // The tag is free for another request.
        requests.begin(&request(3, None), now);
        requests.begin(&request(1, None), now);
        requests.end(&request(3, None));
        assert_eq!(requests.sent.len(), 2);
    }

    #[test]
    fn the_oldest_request_decides() {
        let now = Instant::now();
        let mut requests = OpenRequests::default();
        assert_eq!(requests.age(now), Duration::ZERO);
        requests.sent.insert(1, now);
        requests.sent.insert(2, now + Duration::from_secs(5));
        let later = now + Duration::from_secs(7);
        assert_eq!(requests.age(later), Duration::from_secs(7));
        requests.sent.remove(&1);
        assert_eq!(requests.age(later), Duration::from_secs(2));
    }
}
