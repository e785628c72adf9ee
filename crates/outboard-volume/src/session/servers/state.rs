// SPDX-License-Identifier: GPL-2.0-only
//! Whether the server of a mount answers in time.

use super::relay::Relay;
use super::watch::Lateness;
use std::sync::Arc;

/// How a session learns that the server of a mount did not answer in time.
pub(in crate::session) enum ServerState {
    Relayed(Relay),
    /// The kernel's message says so, or the watch, if there is one.
    Logged(String, Option<Arc<Lateness>>),
}

impl ServerState {
    /// Whether it owes an answer for too long now.
    pub(in crate::session) fn is_late(&self) -> bool {
        match self {
            Self::Relayed(relay) => relay.is_late(),
            Self::Logged(_, watched) => watched.as_ref().is_some_and(|late| late.is_late()),
        }
    }

    /// Whether it did at any time. `lines`: the kernel's log.
    pub(in crate::session) fn was_late(&self, lines: &[String]) -> bool {
        match self {
            Self::Relayed(relay) => relay.is_late(),
            Self::Logged(message, watched) => {
                watched.as_ref().is_some_and(|late| late.was_late())
                    || lines.iter().any(|line| line.contains(message))
            }
        }
    }
}
