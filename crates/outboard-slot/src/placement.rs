// SPDX-License-Identifier: MIT
//! The place of a server's thread, and its way to wait.
//!
//! Both sides are fastest on two processors while requests come one after the other: then neither
//! sleeps. With pauses in between they are fastest on one: to wake a processor that rests takes
//! longer than two switches on one that works. So the thread changes its place:
//!
//! | place | wait | becomes |
//! |---|---|---|
//! | apart | looks, for a moment | together, when no request came meanwhile |
//! | together | sleeps | apart, after requests in turn that came at once, if there is room |

use crate::processor::{current, Processors};
use crate::spin::{has_room, TIME};
use std::time::{Duration, Instant};

/// So many requests in turn that came at once, and the thread leaves the client's processor.
const TOGETHER: u32 = 64;

/// The place of a server's thread.
pub(crate) struct Placement {
    /// The processors on which it may run.
    allowed: Processors,
    /// Requests in turn that came at once, while both were on one processor.
    together: u32,
    began: Option<Instant>,
}

impl Placement {
    /// Of the calling thread.
    pub(crate) fn new() -> Self {
        Self {
            allowed: Processors::allowed(),
            together: 0,
            began: None,
        }
    }

    /// Before a wait. `peer`: the client's processor. Returns the thread's own processor, and
    /// whether they are apart.
    pub(crate) fn before_wait(&mut self, peer: u32) -> (u32, bool) {
        let own = current();
        if own != peer {
            return (own, true);
        }
        if self.together < TOGETHER || !has_room() {
            self.began = Some(Instant::now());
            return (own, false);
        }
        self.together = 0;
        self.allowed.without(own).bind();
        self.allowed.bind();
        let own = current();
        (own, own != peer)
    }

    /// A look has seen no request: the next one shall find the thread on the client's processor.
    pub(crate) fn join(&mut self, peer: u32) {
        self.allowed.only(peer).bind();
    }

    /// A sleep is over.
    pub(crate) fn after_sleep(&mut self) {
        let time = self.began.take().map(|began| began.elapsed());
        if time.unwrap_or(Duration::MAX) < TIME {
            self.together += 1;
        } else {
            self.together = 0;
        }
    }
}
