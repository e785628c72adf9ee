// SPDX-License-Identifier: GPL-2.0-only
//! An event of the host that event loops can wait for: eventfd(2).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A descriptor of the host that is readable after `set` and until `clear`.
#[derive(Debug)]
pub struct HostEvent(OwnedFd);

impl HostEvent {
    /// An event that is not set.
    pub fn new() -> io::Result<Self> {
        // SAFETY: has only numbers as its arguments.
        let raw = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        match raw {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: the descriptor is new, and nobody else's.
            raw => Ok(Self(unsafe { OwnedFd::from_raw_fd(raw) })),
        }
    }

    /// Makes the descriptor readable. Does not block: a full counter is readable, too.
    pub fn set(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the host reads the eight bytes.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Makes the descriptor unreadable. Does not block.
    pub fn clear(&self) {
        let mut count = [0; 8];
        // SAFETY: the host writes at most eight bytes.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    /// Waits until the descriptor is readable. `None`: no time limit. `false`: the time is over.
    pub fn wait(&self, limit: Option<Duration>) -> io::Result<bool> {
        let mut asked = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // Rounded up, so that a short limit is none of zero.
        let milliseconds = limit.map_or(-1, |limit| {
            libc::c_int::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX)
        });
        // SAFETY: there is one structure, which outlives the call.
        match unsafe { libc::poll(&mut asked, 1, milliseconds) } {
            -1 => Err(io::Error::last_os_error()),
            count => Ok(count == 1),
        }
    }
}

impl AsFd for HostEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for HostEvent {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable(event: &HostEvent) -> bool {
        event.wait(Some(Duration::ZERO)).unwrap()
    }

    #[test]
    fn it_is_readable_while_set() {
        let event = HostEvent::new().unwrap();
        assert!(!is_readable(&event));
        event.set();
        event.set();
        assert!(is_readable(&event));
        event.clear();
        assert!(!is_readable(&event));
        event.clear();
        assert!(!event.wait(Some(Duration::from_nanos(1))).unwrap());
    }
}
