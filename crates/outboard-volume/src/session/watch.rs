// SPDX-License-Identifier: GPL-2.0-only
//! A thread that looks after the servers of a session, because some waits of the kernel's clients
//! have no end:
//!
//! | sees | does |
//! |---|---|
//! | an NFS server that owes answers for longer than a request may take | ends the requests |
//! | the same of any server for twice as long, and nothing that can be lost | ends the program |
//! | a signal some time ago, and nothing that can be lost | ends the program: it is stuck |

use outboard::{end_at_once, signals, Kernel, RequestCounts, ServerRequests, ShareState};
use outboard_sandbox::failure::{ErrorKind, Failure};
use outboard_sandbox::interrupt::Interrupt;
use outboard_sandbox::reported::report;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the thread looks.
const LOOK: Duration = Duration::from_millis(500);
/// How long a server may take for an answer, and the command to end, once the user wants to stop.
pub(super) const PATIENCE_OF_STOP: Duration = Duration::from_secs(2);
/// A server owes answers only when no message was sent for so long: the NFS client also sends
/// messages of its own, every minute.
const REST: Duration = Duration::from_secs(20);

/// How much longer than two limits a command may wait for a server that is late. Some waits of the
/// NFS client are no requests.
const PATIENCE_OF_ERROR: Duration = Duration::from_secs(5);

/// Whether the server of a mount did not answer in time.
pub(super) type IsLate = Arc<AtomicBool>;

/// The requests of a mount, and when the counts changed.
struct WatchedRequests {
    name: String,
    requests: ServerRequests,
    counts: RequestCounts,
    sent: Instant,
    answered: Instant,
    is_late: IsLate,
    /// No answer has come since the server was late.
    is_silent: bool,
}

impl WatchedRequests {
    fn new(name: String, requests: ServerRequests) -> Self {
        let now = Instant::now();
        Self {
            name,
            requests,
            counts: RequestCounts::default(),
            sent: now,
            answered: now,
            is_late: IsLate::default(),
            is_silent: false,
        }
    }

    /// Takes new counts. Returns whether the requests are late.
    fn take(&mut self, counts: RequestCounts, now: Instant, limit: Duration) -> bool {
        if counts.sent != self.counts.sent {
            self.sent = now;
        }
        if counts.answered != self.counts.answered || counts.sent <= counts.answered {
            self.answered = now;
            self.is_silent = false;
        }
        self.counts = counts;
        let waits = |since: Instant, limit| now.duration_since(since) >= limit;
        let is_late = waits(self.answered, limit) && waits(self.sent, limit.min(REST));
        self.is_silent |= is_late;
        self.is_silent
    }

    /// `false`: the mount has ended.
    fn look(&mut self, limit: Duration) -> bool {
        let Ok(Some(counts)) = self.requests.counts() else {
            return false;
        };
        if self.take(counts, Instant::now(), limit) {
            self.is_late.store(true, Ordering::Relaxed);
            self.requests.abort();
            give_up_after(self.answered.elapsed(), &self.name, limit);
        }
        true
    }
}

/// The requests to a share. The kernel has one list for all shares.
struct WatchedShare {
    name: String,
    kernel: Kernel,
    oldest: Option<u64>,
    answered: Instant,
    is_late: IsLate,
}

impl WatchedShare {
    /// Takes a new state. Returns for how long the server owes an answer.
    fn take(&mut self, state: ShareState, now: Instant) -> Duration {
        let has_answered = state.oldest.is_none() || state.oldest != self.oldest;
        if state.is_connected && has_answered {
            self.answered = now;
        }
        self.oldest = state.oldest;
        now.duration_since(self.answered)
    }

    fn look(&mut self, limit: Duration) {
        let Ok(state) = self.kernel.share_state() else {
            return;
        };
        let owed = self.take(state, Instant::now());
        self.is_late.store(owed >= limit, Ordering::Relaxed);
        give_up_after(owed, &self.name, limit);
    }
}

/// Ends the program if a server has been late for so long that an error should have come back.
fn give_up_after(owed: Duration, name: &str, limit: Duration) {
    if owed >= limit * 2 + PATIENCE_OF_ERROR && signals::may_end() {
        report(late(name, limit));
        end_at_once(1);
    }
}

/// The error about a server that did not answer in time.
pub(super) fn late(name: &str, limit: Duration) -> Failure {
    let text = format!(
        "{name}: the server has not answered within {} s (--timeout sets how long to wait)",
        limit.as_secs()
    );
    Failure::new(ErrorKind::Unreachable, text)
}

#[derive(Default)]
struct Watched {
    mounts: Mutex<Vec<WatchedRequests>>,
    shares: Mutex<Vec<WatchedShare>>,
    is_finishing: AtomicBool,
}

impl Watched {
    fn mounts(&self) -> MutexGuard<'_, Vec<WatchedRequests>> {
        self.mounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shares(&self) -> MutexGuard<'_, Vec<WatchedShare>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, limit: Duration) {
        let of_request = limit_of_answer(limit);
        self.mounts().retain_mut(|mount| mount.look(of_request));
        self.shares().iter_mut().for_each(|share| share.look(limit));
        let more = match self.is_finishing.load(Ordering::Relaxed) {
            true => limit,
            false => Duration::ZERO,
        };
        signals::end_if_late(PATIENCE_OF_STOP + more);
    }
}

/// How long a server may take for an answer now.
pub(super) fn limit_of_answer(limit: Duration) -> Duration {
    match Interrupt::if_polled().asked() {
        true => limit.min(PATIENCE_OF_STOP),
        false => limit,
    }
}

/// The thread ends with this.
pub(super) struct ServerWatch {
    watched: Arc<Watched>,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ServerWatch {
    /// `limit`: how long a server may take for an answer.
    pub(super) fn start(limit: Duration) -> std::io::Result<Self> {
        let (end, ended) = channel();
        let watched = Arc::new(Watched::default());
        let own = Arc::clone(&watched);
        let thread = std::thread::Builder::new().spawn(move || {
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                own.look(limit);
            }
        })?;
        Ok(Self {
            watched,
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// Watches the requests of a mount.
    pub(super) fn add(&self, name: String, requests: ServerRequests) -> IsLate {
        let new = WatchedRequests::new(name, requests);
        let is_late = Arc::clone(&new.is_late);
        self.watched.mounts().push(new);
        is_late
    }

    /// Watches the requests to a share.
    pub(super) fn add_share(&self, name: String, kernel: Kernel) -> IsLate {
        let is_late = IsLate::default();
        self.watched.shares().push(WatchedShare {
            name,
            kernel,
            oldest: None,
            answered: Instant::now(),
            is_late: Arc::clone(&is_late),
        });
        is_late
    }

    /// The rest is written to the servers now, which takes as long as a request may.
    pub(super) fn finish(&self) {
        self.watched.is_finishing.store(true, Ordering::Relaxed);
    }
}

impl Drop for ServerWatch {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has ended, too.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn a_server_is_late_when_it_owes_answers() {
        let kernel = Kernel::builder().boot().unwrap();
        let mut watched = WatchedRequests::new(String::new(), ServerRequests::of_nothing(&kernel));
        let start = Instant::now();
        let mut at = |seconds, sent, answered| {
            let counts = RequestCounts { sent, answered };
            watched.take(counts, start + Duration::from_secs(seconds), LIMIT)
        };
        assert!(!at(0, 5, 5));
        assert!(!at(100, 5, 5), "it owes nothing");
        assert!(!at(101, 6, 5));
        assert!(!at(129, 6, 5));
        assert!(at(131, 6, 5));
        assert!(at(132, 7, 5), "a new request is late, too");
        assert!(!at(133, 7, 6), "it answers again");
        assert!(!at(160, 8, 6), "a request was just sent");
        assert!(at(190, 8, 6));
    }
}
