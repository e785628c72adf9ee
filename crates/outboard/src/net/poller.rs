// SPDX-License-Identifier: GPL-2.0-only
//! A set of sockets with one descriptor of the host, for event loops of the host.

use crate::net::{EventSource, Net, Ready, Watch};
use outboard_sys::HostEvent;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A socket of a [`Poller`] that has become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The number that [`Poller::add`] got.
    pub token: u64,
    /// Ready for this, since the event before.
    pub ready: Ready,
}

/// Waits for sockets of kernels together with files of the host.
///
/// The poller is a descriptor of the host: put it into epoll(7), mio, tokio's `AsyncFd` or glib,
/// and wait until it is readable. Then [`Poller::take`] returns the sockets that have become ready
/// and makes the descriptor unreadable. Events are edge-triggered: use a nonblocking socket until
/// it fails with `WouldBlock` before you wait again. One poller may have sockets of several
/// kernels. It uses no CPU while nothing happens.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// # let net = outboard::Kernel::builder().boot()?.net();
/// let poller = outboard::net::Poller::new()?;
/// let listener = net.tcp_listen("127.0.0.1:80")?;
/// listener.set_nonblocking(true)?;
/// let _registration = poller.add(&net, &listener, 7)?;
/// // The host's event loop has reported that `poller` is readable.
/// for event in poller.take() {
///     println!("{} is ready: {:?}", event.token, event.ready);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Poller {
    shared: Arc<SharedPoller>,
}

#[derive(Debug)]
struct SharedPoller {
    event: HostEvent,
    ready: Mutex<HashMap<u64, Ready>>,
}

/// A socket's place in a [`Poller`], which ends when this is dropped. It keeps the socket open.
#[derive(Debug)]
pub struct Registration {
    _watch: Watch,
}

impl SharedPoller {
    fn note(&self, token: u64, ready: Ready) {
        let mut all = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = all.is_empty();
        let noted = all.entry(token).or_default();
        *noted = noted.and(ready);
        if is_first {
            self.event.set();
        }
    }

    fn take(&self) -> HashMap<u64, Ready> {
        let mut all = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        self.event.clear();
        std::mem::take(&mut all)
    }
}

impl Poller {
    /// A poller without sockets.
    pub fn new() -> io::Result<Self> {
        let shared = SharedPoller {
            event: HostEvent::new()?,
            ready: Mutex::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Adds a socket under a number. If it is ready now, there is an event soon.
    pub fn add(
        &self,
        net: &Net,
        source: &impl EventSource,
        token: u64,
    ) -> io::Result<Registration> {
        let shared = Arc::clone(&self.shared);
        let watch = net.watch(source, move |ready| shared.note(token, ready))?;
        Ok(Registration { _watch: watch })
    }

    /// Waits until sockets are ready, and takes these. `None`: no time limit. No socket: the time
    /// is over. A signal of the host ends the call with `Interrupted`. This is for programs without
    /// an event loop of their own. A [`crate::Cancel`] does not end this call;
    /// [`Poller::wake`] does.
    pub fn wait(&self, limit: Option<Duration>) -> io::Result<Vec<Event>> {
        self.shared.event.wait(limit)?;
        Ok(self.take())
    }

    /// Adds an event with this number that is ready for nothing, from any thread.
    pub fn wake(&self, token: u64) {
        self.shared.note(token, Ready::default());
    }

    /// The sockets that have become ready since the last call. Does not block. A socket whose
    /// registration has just ended may still have an event.
    pub fn take(&self) -> Vec<Event> {
        let ready = self.shared.take();
        ready
            .into_iter()
            .map(|(token, ready)| Event { token, ready })
            .collect()
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }
}

impl AsRawFd for Poller {
    fn as_raw_fd(&self) -> RawFd {
        self.shared.event.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_a_socket_merge() {
        let poller = Poller::new().unwrap();
        assert!(poller.take().is_empty());
        [3, 3, 4].into_iter().for_each(|token| poller.wake(token));
        let events = poller.wait(None).unwrap();
        let mut tokens: Vec<u64> = events.iter().map(|event| event.token).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, [3, 4]);
        assert!(poller.wait(Some(Duration::ZERO)).unwrap().is_empty());
    }
}
