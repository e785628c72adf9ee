// SPDX-License-Identifier: GPL-2.0-only
//! Reports while work goes on. The front gets them; in calls of the library they go into a list
//! ([`Notes`]) instead.

use crate::format;
use crate::front::front;
use crate::notes::Notes;
use crate::reported::Reported;
use std::fmt::Display;

/// Reports a note or a warning.
pub fn warn(message: impl Display) {
    let message = message.to_string();
    match Notes::current() {
        Some(notes) => notes.push(format::message(&message)),
        None => front().warning(message),
    }
}

/// Reports a failure. The command goes on.
pub fn report(failure: impl Into<Reported>) {
    let failure = failure.into();
    match Notes::current() {
        Some(notes) => notes.push(format::message(&failure.message)),
        None => front().failure(failure),
    }
}
