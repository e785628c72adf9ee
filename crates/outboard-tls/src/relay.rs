// SPDX-License-Identifier: MIT
//! A thread between a connection with TLS and the plain bytes of it.
//!
//! | side | is read while | is written while |
//! |---|---|---|
//! | the network | the last plain bytes have gone | TLS has something to send |
//! | plain | TLS has nothing to send | bytes came that have not gone |
//!
//! So neither side can make this process keep more than a buffer of each. When one side ends, what
//! has come from it goes to the other one, which gets some time for that, and then both end.

use crate::dialed::Dialed;
use crate::reason::{is_refusal, OwnEnd, TlsSide};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{SigSet, SigmaskHow};
use outboard_protocol::frames::{Frame, RunAnswer};
use rustix::io::fcntl_dupfd_cloexec;
use rustls::Connection;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that are moved at a time.
const BUFFER: usize = 64 << 10;
/// How long the other side may take to prove who it is, and to take the last bytes.
const PATIENCE: Duration = Duration::from_secs(10);
/// Descriptors below this number are the program's.
const LEAST: i32 = 1000;
/// The exit code of a command whose connection fails.
const FAILED: u8 = 125;

struct Relay {
    tls: Connection,
    network: TcpStream,
    plain: UnixStream,
    /// Bytes for the plain side.
    arrived: Vec<u8>,
    /// The plain side has got some.
    has_delivered: bool,
    /// One side has ended: until then the other one has time.
    ends: Option<Instant>,
}

/// Starts a thread that handles no signal of its process.
fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let own = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = thread::Builder::new().name("tls".to_owned()).spawn(work);
    own.thread_set_mask()?;
    started.map(drop)
}

/// The same socket, by a descriptor that is not among the program's, if its limit allows it.
fn moved(socket: OwnedFd) -> OwnedFd {
    fcntl_dupfd_cloexec(&socket, LEAST).unwrap_or(socket)
}

/// Starts the thread. The result is the plain side. If TLS fails before the plain side of a client
/// has got a byte, it gets an answer with the reason.
pub(crate) fn relay(tls: Connection, network: TcpStream, end: OwnEnd) -> io::Result<Dialed> {
    let (ours, plain) = UnixStream::pair()?;
    let plain = UnixStream::from(moved(plain.into()));
    let network = TcpStream::from(moved(network.into()));
    network.set_nonblocking(true)?;
    network.set_nodelay(true)?;
    plain.set_nonblocking(true)?;
    let behind = vec![network.as_raw_fd(), plain.as_raw_fd()];
    let mut relay = Relay {
        tls,
        network,
        plain,
        arrived: Vec::new(),
        has_delivered: false,
        ends: None,
    };
    let failure = Arc::new(OnceLock::new());
    let known = Arc::clone(&failure);
    // The thread ends by an error as well as by an end.
    start(move || {
        if let Err(error) = relay.run() {
            let reason = end.reason(&error);
            let is_unanswered = end.side == TlsSide::Client && !relay.has_delivered;
            if is_unanswered && is_refusal(&error) {
                relay.answer(&reason);
            }
            let _ = known.set(reason);
        }
        relay.leave();
    })?;
    Ok(Dialed {
        stream: ours,
        behind,
        failure,
    })
}

/// Whether the call only found nothing to do.
fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

impl Relay {
    fn run(&mut self) -> io::Result<()> {
        let proof = Instant::now() + PATIENCE;
        loop {
            let until = self.ends.or(self.tls.is_handshaking().then_some(proof));
            let (network, plain) = self.wait(until)?;
            if network {
                self.read_network()?;
            }
            if plain {
                self.read_plain()?;
            }
            self.write_plain()?;
            self.write_network()?;
            let is_done = self.arrived.is_empty() && !self.tls.wants_write();
            if self.ends.is_some() && is_done {
                return Ok(());
            }
        }
    }

    /// Waits until there is something to do. Returns which sides can be read.
    fn wait(&self, until: Option<Instant>) -> io::Result<(bool, bool)> {
        let wanted = |reads: bool, writes: bool| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::POLLIN, reads && self.ends.is_none());
            flags.set(PollFlags::POLLOUT, writes);
            flags
        };
        let sends = self.tls.wants_write();
        let network = wanted(self.arrived.is_empty(), sends);
        let may_send = !sends && !self.tls.is_handshaking();
        let plain = wanted(may_send, !self.arrived.is_empty());
        // One that is not asked for anything would still tell of its end, again and again.
        let sides = [
            PollFd::new(self.network.as_fd(), network),
            PollFd::new(self.plain.as_fd(), plain),
        ];
        let mut asked: Vec<PollFd> = sides
            .into_iter()
            .filter(|side| !side.events().is_empty())
            .collect();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let limit = left.map_or(Ok(PollTimeout::NONE), PollTimeout::try_from);
        match poll(&mut asked, limit.unwrap_or(PollTimeout::MAX)) {
            Ok(0) => Err(ErrorKind::TimedOut.into()),
            Ok(_) if left.is_some_and(|left| left.is_zero()) => Err(ErrorKind::TimedOut.into()),
            Ok(_) => {
                let can_read = |side: &dyn AsRawFd| {
                    let mut ready = asked.iter().filter(|ready| ready.any().unwrap_or(true));
                    ready.any(|ready| {
                        ready.as_fd().as_raw_fd() == side.as_raw_fd()
                            && ready.events().contains(PollFlags::POLLIN)
                    })
                };
                Ok((can_read(&self.network), can_read(&self.plain)))
            }
            Err(nix::errno::Errno::EINTR) => Ok((false, false)),
            Err(error) => Err(error.into()),
        }
    }

    /// Answers the client's first request in the server's place.
    fn answer(&self, reason: &str) {
        let answer = RunAnswer::Failed {
            reason: reason.to_owned(),
            code: FAILED,
        };
        // There is room for it: nothing was written before.
        let _ = Frame::send(&mut &self.plain, &answer);
    }

    /// Both sides see that the thread has gone, even if a child of fork(2) has their descriptors.
    fn leave(&self) {
        let _ = self.plain.shutdown(Shutdown::Both);
        let _ = self.part();
        let _ = self.network.shutdown(Shutdown::Both);
    }

    /// Waits for the end of the other side: TCP takes back what it has sent from a socket that is
    /// closed while bytes wait in it.
    fn part(&self) -> io::Result<()> {
        self.network.shutdown(Shutdown::Write)?;
        self.network.set_nonblocking(false)?;
        let until = Instant::now() + PATIENCE;
        let mut rest = [0; 4096];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // No time is an error.
            self.network.set_read_timeout(Some(left))?;
            if (&self.network).read(&mut rest)? == 0 {
                return Ok(());
            }
        }
    }

    fn end(&mut self) {
        self.ends.get_or_insert(Instant::now() + PATIENCE);
    }

    fn read_network(&mut self) -> io::Result<()> {
        match self.tls.read_tls(&mut self.network) {
            Ok(0) => self.end(),
            Ok(_) => {}
            Err(error) if is_later(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        let state = match self.tls.process_new_packets() {
            Ok(state) => state,
            Err(error) => {
                // The other side learns why.
                let _ = self.tls.write_tls(&mut self.network);
                return Err(io::Error::other(error));
            }
        };
        let mut bytes = vec![0; state.plaintext_bytes_to_read()];
        self.tls.reader().read_exact(&mut bytes)?;
        self.arrived.extend(bytes);
        if state.peer_has_closed() {
            self.end();
        }
        Ok(())
    }

    fn read_plain(&mut self) -> io::Result<()> {
        let mut buffer = [0; BUFFER];
        match self.plain.read(&mut buffer) {
            Ok(0) => {
                self.tls.send_close_notify();
                self.end();
                Ok(())
            }
            Ok(length) => self.tls.writer().write_all(&buffer[..length]),
            Err(error) if is_later(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn write_plain(&mut self) -> io::Result<()> {
        if self.arrived.is_empty() {
            return Ok(());
        }
        match self.plain.write(&self.arrived) {
            Ok(length) => {
                self.has_delivered = true;
                self.arrived.drain(..length);
                Ok(())
            }
            Err(error) if is_later(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn write_network(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.network) {
                Ok(_) => {}
                Err(error) if is_later(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
