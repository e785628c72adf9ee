// SPDX-License-Identifier: GPL-2.0-only
//! Bounds the failures that are printed: a damaged image, or a limit of a file system, can cause
//! thousands of one reason. The first ones are printed, the others are counted, and [`rest`] has
//! the count at the end of a command.

use outboard_error::{format, reason, ErrorKind, Reported};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most failures of one reason that are printed.
const SHOWN: u64 = 20;
/// Most texts of one kind and errno: a text may name files. All further ones count as one, so they
/// never hide failures of another kind or errno.
const TEXTS: usize = 32;

/// The reason of a failure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailureReason {
    kind: &'static str,
    errno: Option<i32>,
    /// The end of the message, behind its last colon.
    text: String,
}

/// Failures by their reasons, since the last [`rest`].
static TALLIES: Mutex<BTreeMap<FailureReason, u64>> = Mutex::new(BTreeMap::new());

fn tallies() -> MutexGuard<'static, BTreeMap<FailureReason, u64>> {
    TALLIES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FailureReason {
    pub fn of(failure: &Reported) -> Self {
        let path = failure.path.as_deref();
        Self::new(failure.kind, failure.errno, path, &failure.message)
    }

    /// The reason in a message, which may name the file at `path`.
    fn new(kind: ErrorKind, errno: Option<i32>, path: Option<&[u8]>, message: &str) -> Self {
        let first = message.lines().next().unwrap_or_default();
        let text = match path {
            Some(path) => first.replace(&format::escaped(path), "..."),
            None => first.to_owned(),
        };
        let end = text.rsplit_once(": ").map_or(text.as_str(), |(_, end)| end);
        Self {
            kind: kind.name(),
            errno,
            text: end.to_owned(),
        }
    }

    /// Whether both are of one kind and errno.
    fn is_like(&self, other: &Self) -> bool {
        (self.kind, self.errno) == (other.kind, other.errno)
    }

    /// The reason of all failures of its kind and errno.
    fn without_text(self) -> Self {
        let text = match self.errno {
            Some(number) => reason(&io::Error::from_raw_os_error(number)),
            None => format!("other reasons ({})", self.kind),
        };
        Self { text, ..self }
    }
}

/// Counts a failure. Returns whether it is to be printed.
pub fn admits(reason: FailureReason) -> bool {
    count(&mut tallies(), reason)
}

fn count(tallies: &mut BTreeMap<FailureReason, u64>, reason: FailureReason) -> bool {
    let known = tallies.contains_key(&reason);
    let alike = || tallies.keys().filter(|known| known.is_like(&reason));
    let reason = if known || alike().count() < TEXTS {
        reason
    } else {
        reason.without_text()
    };
    let count = tallies.entry(reason).or_default();
    *count += 1;
    *count <= SHOWN
}

/// Lines that say how many failures were not printed. Forgets all failures.
fn rest_of(tallies: &mut BTreeMap<FailureReason, u64>) -> Vec<String> {
    let all = std::mem::take(tallies).into_iter();
    all.filter(|(_, count)| *count > SHOWN)
        .map(|(FailureReason { text, .. }, count)| {
            format!("and {} more failures of this kind: {text}", count - SHOWN)
        })
        .collect()
}

/// Forgets all failures: those before are of another process.
pub fn forget() {
    tallies().clear();
}

/// Lines that say how many failures of each reason were not printed, since the last call.
pub fn rest() -> Vec<String> {
    rest_of(&mut tallies())
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard_error::Failure;
    use std::io;

    fn failed(path: &str, errno: i32) -> FailureReason {
        let error = io::Error::from_raw_os_error(errno);
        let path = path.as_bytes();
        let failure = Failure::of_file("cannot write", path.to_vec(), &error);
        FailureReason::new(failure.kind(), Some(errno), Some(path), failure.message())
    }

    #[test]
    fn failures_of_one_reason_are_bounded_and_counted() {
        let mut tallies = BTreeMap::new();
        let shown = (0..5000).filter(|number| {
            let path = format!("d.img:/a: b/{number}");
            count(&mut tallies, failed(&path, libc::EMLINK))
        });
        assert_eq!(shown.count() as u64, SHOWN);
        assert!(count(&mut tallies, failed("d.img:/c", libc::EIO)));
        let rest = rest_of(&mut tallies);
        assert_eq!(
            rest,
            ["and 4980 more failures of this kind: Too many links"]
        );
        assert!(tallies.is_empty());
    }

    #[test]
    fn reasons_are_bounded_too() {
        let mut tallies = BTreeMap::new();
        let shown = (0..5000).filter(|number| {
            let text = format!("left out a: reason {number}");
            let reason = FailureReason::new(ErrorKind::Other, None, None, &text);
            count(&mut tallies, reason)
        });
        assert_eq!(shown.count() as u64, TEXTS as u64 + SHOWN);
        assert!(tallies.len() <= TEXTS + 1);
        // They hide no failure of another kind or errno.
        for errno in [libc::EIO, libc::ENOSPC] {
            let shown = (0..100).filter(|_| count(&mut tallies, failed("d.img:/c", errno)));
            assert_eq!(shown.count() as u64, SHOWN);
        }
        let lines = rest_of(&mut tallies);
        for text in [
            "other reasons (other)",
            "Input/output error",
            "No space left on device",
        ] {
            let found = lines.iter().filter(|line| line.ends_with(text));
            assert_eq!(found.count(), 1, "{lines:?}");
        }
    }
}
