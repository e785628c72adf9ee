// SPDX-License-Identifier: GPL-2.0-only
//! A thread that watches the servers of a session, because some waits of the kernel's clients have
//! no end.
//!
//! | a server owes an answer for | the thread |
//! |---|---|
//! | the limit | ends the requests to an NFS server; the client of SMB connects again |
//! | twice the limit and 5 s, and nothing can be lost | ends the program |
//! | the same, and something can be lost | gives the server up: all calls fail from now on |
//! | 30 s more | halts the kernel, and ends the program |
//!
//! A halt ends all calls and unmounts the images: nothing in them is lost. It also ends a mount
//! that takes longer than three times the limit and a minute.
//!
//! A library's thread ends no process: it gives the server up in the second row, too, and only
//! halts the kernel in the last one. That kernel has no volume but the server's. Signals are the
//! affair of the library's program. A call that a limit of its caller has ended looks like one that
//! the server owes an answer for. So at the limit the thread of a library also asks an NFS server
//! itself: one that answers owes nothing.
//!
//! After a signal, the limit is two seconds at most. Two seconds after a signal the thread ends the
//! program, if nothing can be lost.
//!
//! A mount of the host waits only while it answers a request ([`ServerWatch::watch_while`]). The
//! last three rows hold only if a request has waited for the limit and 5 s, or 30 s more: while no
//! program uses the mount, its server may come and go.

use super::thread::ServerThread;
use outboard::{end_at_once, signals, Kernel, RequestCounts, ServerRequests, ShareState};
use outboard_error::{front, report, ErrorKind, Failure, Hint};
use outboard_sandbox::interrupt::Interrupt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the thread looks.
const LOOK: Duration = Duration::from_millis(500);
/// How long a server may take for an answer, and the command to end, once the user wants to stop.
pub(super) const PATIENCE_OF_STOP: Duration = Duration::from_secs(2);
/// A server owes answers only when no message was sent for so long: the NFS client also sends
/// messages of its own, every minute.
const REST: Duration = Duration::from_secs(20);

/// How much longer than two limits a call may wait for a server that is late. Some waits of the NFS
/// client are no requests.
const PATIENCE_OF_ERROR: Duration = Duration::from_secs(5);
/// How long the calls of a mount may take to fail once its server was given up. The client of SMB
/// connects again in that time.
const PATIENCE_OF_CALLS: Duration = Duration::from_secs(30);
/// How much longer than three limits a mount may take: it makes several requests.
const PATIENCE_OF_MOUNT: Duration = Duration::from_secs(60);

/// Whether the server of a mount answers in time.
#[derive(Debug, Default)]
pub(in crate::session) struct Lateness {
    is_late: AtomicBool,
    was_late: AtomicBool,
}

impl Lateness {
    fn set(&self, is_late: bool) {
        self.is_late.store(is_late, Ordering::Relaxed);
        self.was_late.fetch_or(is_late, Ordering::Relaxed);
    }

    /// Whether it owes an answer for too long now.
    pub(super) fn is_late(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
    }

    /// Whether it did at any time: the reason of errors.
    pub(super) fn was_late(&self) -> bool {
        self.was_late.load(Ordering::Relaxed)
    }
}

/// Whether a call waits for the servers now.
pub(super) type IsWaiting = Box<dyn Fn() -> bool + Send>;

/// A step against a server that owes an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Wait,
    GiveUp,
    End,
}

/// A look at all servers.
struct Look<'a> {
    /// How long a server may take for an answer now.
    limit: Duration,
    /// For how long calls have waited without a break.
    waited: Duration,
    kernel: &'a Kernel,
    in_library: bool,
}

impl Look<'_> {
    fn measure(&self, owed: Duration) -> Measure {
        // A call may have begun after the server was late.
        let waited = owed.saturating_sub(self.limit).min(self.waited);
        let due = self.limit + PATIENCE_OF_ERROR;
        if waited >= due + PATIENCE_OF_CALLS {
            Measure::End
        } else if waited >= due {
            Measure::GiveUp
        } else {
            Measure::Wait
        }
    }

    /// `owed`: for how long the server owes an answer.
    fn act(&self, name: &str, owed: Duration, requests: &ServerRequests) {
        match self.measure(owed) {
            Measure::Wait => {}
            Measure::GiveUp if self.in_library || !signals::may_end() => {
                // An error: the mount has just ended.
                let _ = requests.shut_down();
            }
            Measure::GiveUp | Measure::End => self.end(name),
        }
    }

    /// Ends the program, or a library's kernel: a call waits for a server without an end.
    fn end(&self, name: &str) {
        if self.in_library {
            // An error: it has been halted.
            let _ = self.kernel.clone().halt();
            return;
        }
        report(late(name, self.limit));
        if !signals::may_end() {
            // Its error would be about the same server. The images are unmounted then.
            let _ = self.kernel.clone().halt();
        }
        end_at_once(front().failure_code().into())
    }
}

/// The requests of a mount, and when the counts changed.
struct WatchedRequests {
    name: String,
    requests: ServerRequests,
    counts: RequestCounts,
    sent: Instant,
    answered: Instant,
    lateness: Arc<Lateness>,
    /// No answer has come since the server was late.
    is_silent: bool,
    /// Messages that will have no answer: their requests were ended.
    lost: u64,
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
            lateness: Arc::default(),
            is_silent: false,
            lost: 0,
        }
    }

    /// Takes new counts. Returns whether the requests are to end. While the server is silent, those
    /// that were sent since the last look are not: it may answer again.
    fn take(&mut self, counts: RequestCounts, now: Instant, limit: Duration) -> bool {
        let is_new = counts.sent != self.counts.sent;
        let open = counts.sent.saturating_sub(counts.answered);
        self.lost = self.lost.min(open);
        if is_new {
            self.sent = now;
        }
        if counts.answered != self.counts.answered {
            self.is_silent = false;
            self.lateness.set(false);
        }
        if !self.is_silent && (counts.answered != self.counts.answered || open == self.lost) {
            self.answered = now;
        }
        self.counts = counts;
        let waits = |since: Instant, limit| now.duration_since(since) >= limit;
        self.is_silent |= waits(self.answered, limit) && waits(self.sent, limit.min(REST));
        let end = self.is_silent && !is_new;
        if end {
            self.lateness.set(true);
            self.lost = open;
        }
        end
    }

    /// `false`: the mount has ended.
    fn look(&mut self, look: &Look) -> bool {
        let Ok(Some(counts)) = self.requests.counts() else {
            return false;
        };
        let was_silent = self.is_silent;
        if self.take(counts, Instant::now(), look.limit) {
            self.requests.abort();
        }
        if look.in_library && self.is_silent && !was_silent {
            // The next look counts the answer.
            let _ = self.requests.ask(look.limit);
            return true;
        }
        if self.is_silent {
            look.act(&self.name, self.answered.elapsed(), &self.requests);
        }
        true
    }
}

/// The requests to a share. The kernel has one list for all shares.
struct WatchedShare {
    name: String,
    requests: ServerRequests,
    oldest: Option<u64>,
    answered: Instant,
    lateness: Arc<Lateness>,
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

    fn look(&mut self, look: &Look) {
        let Ok(state) = look.kernel.share_state() else {
            return;
        };
        let owed = self.take(state, Instant::now());
        self.lateness.set(owed >= look.limit);
        look.act(&self.name, owed, &self.requests);
    }
}

/// The error about a server that did not answer in time.
pub(super) fn late(name: &str, limit: Duration) -> Failure {
    Failure::hinted(ErrorKind::Unreachable, Hint::Timeout, |setting| {
        let seconds = limit.as_secs();
        format!("{name}: the server has not answered within {seconds} s{setting}")
    })
}

struct Watched {
    kernel: Kernel,
    in_library: bool,
    mounts: Mutex<Vec<WatchedRequests>>,
    shares: Mutex<Vec<WatchedShare>>,
    /// The name of a mount under way, and when it began.
    mounting: Mutex<Option<(String, Instant)>>,
    /// `None`: calls wait all the time while a command runs.
    is_waiting: Mutex<Option<IsWaiting>>,
    is_finishing: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watched {
    fn new(kernel: Kernel, in_library: bool) -> Self {
        Self {
            kernel,
            in_library,
            mounts: Mutex::default(),
            shares: Mutex::default(),
            mounting: Mutex::default(),
            is_waiting: Mutex::default(),
            is_finishing: AtomicBool::default(),
        }
    }

    fn is_waiting(&self) -> bool {
        if self.is_finishing.load(Ordering::Relaxed) {
            return true;
        }
        match &*locked(&self.is_waiting) {
            Some(is_waiting) => is_waiting(),
            // Not while the user is asked for the next command.
            None => !signals::is_idle(),
        }
    }

    fn look(&self, limit: Duration, waited: Duration) {
        let look = Look {
            limit: limit_of_answer(limit),
            waited,
            kernel: &self.kernel,
            in_library: self.in_library,
        };
        if let Some((name, began)) = &*locked(&self.mounting) {
            if began.elapsed() >= look.limit * 3 + PATIENCE_OF_MOUNT {
                look.end(name);
            }
        }
        locked(&self.mounts).retain_mut(|mount| mount.look(&look));
        locked(&self.shares)
            .iter_mut()
            .for_each(|share| share.look(&look));
        if self.in_library {
            return;
        }
        let more = if self.is_finishing.load(Ordering::Relaxed) {
            limit
        } else {
            Duration::ZERO
        };
        signals::end_if_late(PATIENCE_OF_STOP + more);
    }

    /// Looks again and again, until there is nothing to watch.
    fn run(&self, limit: Duration, ended: &Receiver<()>) {
        let mut waiting_since = Instant::now();
        while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if !self.is_waiting() {
                waiting_since = Instant::now();
            }
            self.look(limit, waiting_since.elapsed());
        }
    }
}

/// How long a server may take for an answer now.
pub(super) fn limit_of_answer(limit: Duration) -> Duration {
    if Interrupt::if_polled().asked() {
        limit.min(PATIENCE_OF_STOP)
    } else {
        limit
    }
}

/// The thread ends with this.
pub(super) struct ServerWatch {
    watched: Arc<Watched>,
    /// Dropped before the thread, which ends then.
    _end: Sender<()>,
    _thread: ServerThread,
}

impl ServerWatch {
    /// `limit`: how long a server may take for an answer. `in_library`: the process belongs to
    /// a program that is not ours.
    pub(super) fn start(
        limit: Duration,
        kernel: &Kernel,
        in_library: bool,
    ) -> std::io::Result<Self> {
        let (end, ended) = channel();
        let watched = Arc::new(Watched::new(kernel.clone(), in_library));
        let own = Arc::clone(&watched);
        let thread = ServerThread::start(kernel, move || own.run(limit, &ended))?;
        Ok(Self {
            watched,
            _end: end,
            _thread: thread,
        })
    }

    /// From now on calls wait for the servers only while `is_waiting` returns true.
    pub(super) fn watch_while(&self, is_waiting: IsWaiting) {
        *locked(&self.watched.is_waiting) = Some(is_waiting);
    }

    /// Mounts what a server has. The program, or a library's kernel, ends if that takes too long.
    pub(super) fn while_mounting<T>(&self, name: &str, mount: impl FnOnce() -> T) -> T {
        *locked(&self.watched.mounting) = Some((name.to_owned(), Instant::now()));
        let mounted = mount();
        *locked(&self.watched.mounting) = None;
        mounted
    }

    /// Watches the requests of a mount.
    pub(super) fn add(&self, name: String, requests: ServerRequests) -> Arc<Lateness> {
        let new = WatchedRequests::new(name, requests);
        let lateness = Arc::clone(&new.lateness);
        locked(&self.watched.mounts).push(new);
        lateness
    }

    /// Watches the requests to a share.
    pub(super) fn add_share(&self, name: String, requests: ServerRequests) -> Arc<Lateness> {
        let lateness = Arc::<Lateness>::default();
        locked(&self.watched.shares).push(WatchedShare {
            name,
            requests,
            oldest: None,
            answered: Instant::now(),
            lateness: Arc::clone(&lateness),
        });
        lateness
    }

    /// The rest is written to the servers now, which takes as long as a request may.
    pub(super) fn finish(&self) {
        self.watched.is_finishing.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard::KernelError;

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn a_server_is_given_up_while_a_call_waits() {
        let kernel = Kernel::builder().boot().unwrap();
        let measure = |owed, waited| {
            let look = Look {
                limit: LIMIT,
                waited: Duration::from_secs(waited),
                kernel: &kernel,
                in_library: false,
            };
            look.measure(Duration::from_secs(owed))
        };
        assert_eq!(measure(64, 1000), Measure::Wait);
        assert_eq!(measure(65, 1000), Measure::GiveUp);
        assert_eq!(measure(94, 1000), Measure::GiveUp);
        assert_eq!(measure(95, 1000), Measure::End);
        assert_eq!(measure(1000, 34), Measure::Wait, "a call has just begun");
        assert_eq!(measure(1000, 35), Measure::GiveUp);
        assert_eq!(measure(1000, 65), Measure::End);
        assert_eq!(measure(0, 1000), Measure::Wait);
    }

    #[test]
    fn in_a_library_only_the_kernel_ends() {
        let kernel = Kernel::builder().boot().unwrap();
        let look = Look {
            limit: LIMIT,
            waited: LIMIT * 10,
            kernel: &kernel,
            in_library: true,
        };
        let requests = ServerRequests::of_nothing(&kernel);
        look.act("given up", Duration::from_secs(65), &requests);
        assert_eq!(kernel.check(), Ok(()));
        look.act("ended", Duration::from_secs(95), &requests);
        assert_eq!(kernel.check(), Err(KernelError::Halted));
    }

    #[test]
    fn a_server_is_late_when_it_owes_answers() {
        let kernel = Kernel::builder().boot().unwrap();
        let mut watched = WatchedRequests::new(String::new(), ServerRequests::of_nothing(&kernel));
        let lateness = Arc::clone(&watched.lateness);
        let start = Instant::now();
        let mut at = |seconds, sent, answered| {
            let counts = RequestCounts { sent, answered };
            watched.take(counts, start + Duration::from_secs(seconds), LIMIT)
        };
        assert!(!at(0, 5, 5));
        assert!(!at(100, 5, 5), "it owes nothing");
        assert!(!at(101, 6, 5));
        assert!(!at(129, 6, 5));
        assert!(!lateness.is_late());
        assert!(at(131, 6, 5));
        assert!(lateness.is_late());
        assert!(!at(132, 7, 5), "it may answer again");
        assert!(at(133, 7, 5), "a new request is late, too");
        assert!(!at(134, 8, 6), "it answers again");
        assert!(!lateness.is_late() && lateness.was_late());
        assert!(!at(300, 8, 6), "it owes nothing: two requests were ended");
        assert!(!at(301, 9, 6));
        assert!(!at(325, 10, 6), "a request was just sent");
        assert!(at(350, 10, 6));
    }
}
