// SPDX-License-Identifier: GPL-2.0-only
//! The end of work without success, with messages for people.

use crate::failure::{ErrorKind, Failure};
use crate::format::escaped;
use crate::hint::Hint;
use crate::report::{report, warn};
use crate::reported::Reported;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::io;
use std::path::Path;

/// Why work ended without success. Messages name the thing and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Error {
    /// The call makes no sense: a name, a pattern, an option. Nothing was done.
    Usage(String),
    /// It failed, for a reason that only the text has.
    Failed(String),
    /// It failed, and programs can tell why.
    Known(Box<Failure>),
    /// The user stopped it.
    Interrupted(String),
    /// Parts of the work failed. Each failure was reported at once: see
    /// [`report`](crate::report()).
    AlreadyReported,
    /// The kernel of another process has panicked, and everything was reported already.
    Panicked,
    /// Nobody reads the output any more.
    ReaderGone,
}

/// A result of this crate and those above it.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The same error, with more lines about it. Reports them at once if the error has no text.
    pub fn with_note(self, note: &str) -> Self {
        match self {
            Error::Usage(text) => Error::Usage(format!("{text}\n{note}")),
            Error::Failed(text) => Error::Failed(format!("{text}\n{note}")),
            Error::Known(failure) => Error::from(failure.with_note(note)),
            Error::Interrupted(text) => Error::Interrupted(format!("{text}\n{note}")),
            Error::AlreadyReported | Error::Panicked | Error::ReaderGone => {
                warn(note);
                self
            }
        }
    }

    /// The same error, with the name that the user knows in the place of a private file's path.
    pub fn naming(self, path: &str, operand: &[u8]) -> Self {
        let renamed = |text: String| text.replace(path, &escaped(operand));
        match self {
            Error::Usage(text) => Error::Usage(renamed(text)),
            Error::Failed(text) => Error::Failed(renamed(text)),
            Error::Known(failure) => Error::from(failure.naming(path, operand)),
            Error::Interrupted(text) => Error::Interrupted(renamed(text)),
            Error::AlreadyReported | Error::Panicked | Error::ReaderGone => self,
        }
    }

    /// The text for the user, if there is one.
    pub fn message(&self) -> Option<&str> {
        match self {
            Error::Usage(text) | Error::Failed(text) | Error::Interrupted(text) => Some(text),
            Error::Known(failure) => Some(failure.message()),
            Error::AlreadyReported | Error::Panicked | Error::ReaderGone => None,
        }
    }

    /// The failure. An error of another kind (the user stopped the command, ...) comes back.
    pub fn into_failure(self) -> std::result::Result<Failure, Error> {
        match self {
            Error::Failed(text) => Ok(Failure::new(ErrorKind::Other, text)),
            Error::Known(failure) => Ok(*failure),
            other => Err(other),
        }
    }

    /// `what` failed for the reason that `error` gives.
    pub fn failed(what: impl Display, error: &io::Error) -> Self {
        Error::from(Failure::of(error).after(what))
    }

    /// The output `name` cannot be written.
    pub fn of_output(name: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Error::ReaderGone,
            _ => Error::failed(format!("cannot write to {name}"), error),
        }
    }

    /// `what` failed on the file at `path`, for the reason that `error` gives. `path`: as the user
    /// would write it.
    pub fn of_file(what: &str, path: Vec<u8>, error: &io::Error) -> Self {
        Error::from(Failure::of_file(what, path, error))
    }

    /// The same failure, of the file at `path` unless it names another one. `path`: as the user
    /// would write it.
    pub fn about(self, path: Vec<u8>) -> Self {
        match self {
            Error::Failed(text) => {
                Error::from(Failure::new(ErrorKind::Other, text).with_path(path))
            }
            Error::Known(failure) if failure.path().is_none() => {
                Error::from(failure.with_path(path))
            }
            other => other,
        }
    }

    /// A failure of a kind that programs can tell from others.
    pub fn known(kind: ErrorKind, text: impl Into<String>) -> Self {
        Error::from(Failure::new(kind, text))
    }

    /// A failure whose text has the words of a hint.
    pub fn hinted(kind: ErrorKind, hint: Hint, text: impl FnOnce(&Hint) -> String) -> Self {
        Error::from(Failure::hinted(kind, hint, text))
    }

    /// The kind of error that programs get.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Usage(_) => ErrorKind::Usage,
            Error::Known(failure) => failure.kind(),
            Error::Interrupted(_) => ErrorKind::Interrupted,
            Error::Panicked => ErrorKind::Crashed,
            Error::Failed(_) | Error::AlreadyReported | Error::ReaderGone => ErrorKind::Other,
        }
    }
}

impl Error {
    /// The errno of the system call that failed, if one did.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Known(failure) => failure.errno(),
            _ => None,
        }
    }

    /// The file that it is about, as the user would write it, if one is known.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Known(failure) => failure.path(),
            _ => None,
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Error::Known(Box::new(failure))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Known(failure) => *failure,
            other => Failure::new(other.kind(), other.message().unwrap_or("it failed")),
        }
    }
}

/// Failures that do not end a command, only its success: each is reported at once, and the
/// command goes on.
#[derive(Debug, Default)]
pub struct Failures {
    any: bool,
}

impl Failures {
    /// Reports a failure at once.
    pub fn tell(&mut self, failure: impl Into<Reported>) {
        report(failure);
        self.any = true;
    }

    /// Reports a failure of one part of a command. A failure of the whole command stays an error.
    pub fn take<T>(&mut self, part: Result<T>) -> Result<Option<T>> {
        match part {
            Ok(value) => return Ok(Some(value)),
            Err(Error::AlreadyReported) => self.any = true,
            Err(error) => self.tell(error.into_failure()?),
        }
        Ok(None)
    }

    /// An error if there was any failure.
    pub fn finish(self) -> Result<()> {
        if self.any {
            Err(Error::AlreadyReported)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notes::Notes;

    #[test]
    fn failures_keep_their_kind() {
        let cause = io::Error::from_raw_os_error(libc::EROFS);
        let error = Error::failed("cannot write /tmp/x", &cause);
        assert_eq!(error.kind(), ErrorKind::ReadOnly);
        let error = error.with_note("note").naming("/tmp/x", b"a.img");
        let text = "cannot write a.img: Read-only file system\nnote";
        assert_eq!(error.message(), Some(text));
        let failure = Failure::from(error);
        assert_eq!(failure.errno(), Some(libc::EROFS));
        let error = Error::of_file("cannot write", b"a\xff".to_vec(), &cause);
        let text = r"cannot write a\xff: Read-only file system";
        assert_eq!(error.message(), Some(text));
        let reported = Reported::from(Failure::from(error));
        assert_eq!(reported.path.as_deref(), Some(b"a\xff".as_slice()));
        let other = Error::known(ErrorKind::Locked, "in use").about(b"a.img".to_vec());
        assert_eq!(other.path(), Some(Path::new("a.img")));
        let other = other.about(b"b.img".to_vec());
        assert_eq!(other.path(), Some(Path::new("a.img")));
        let other = Error::Failed("bad".to_owned()).about(b"b.img".to_vec());
        assert_eq!(other.path(), Some(Path::new("b.img")));
        let other = other.about(b"/tmp/x@1".to_vec());
        assert_eq!(other.path(), Some(Path::new("b.img")));
        let private = Error::Failed("bad".to_owned()).about(b"/tmp/x@1".to_vec());
        let named = private.naming("/tmp/x", b"a.img");
        assert_eq!(named.path(), Some(Path::new("a.img@1")));
        let interrupted = Failure::from(Error::Interrupted("stopped".to_owned()));
        assert_eq!(interrupted.kind(), ErrorKind::Interrupted);
        assert_eq!(interrupted.message(), "stopped");
    }

    #[test]
    fn failures_are_told_and_others_are_not() {
        let notes = Notes::default();
        notes.collect(|| {
            let mut failures = Failures::default();
            let known = Error::known(ErrorKind::Damaged, "a");
            assert_eq!(failures.take::<()>(Err(known)), Ok(None));
            let stop = Err(Error::Interrupted("b".to_owned()));
            assert!(failures.take::<()>(stop).is_err());
            assert_eq!(failures.finish(), Err(Error::AlreadyReported));
        });
        assert_eq!(notes.lines(), ["a"]);
    }

    #[test]
    fn notes_go_into_the_nearest_list() {
        let (outer, inner) = (Notes::default(), Notes::default());
        outer.collect(|| {
            warn("a");
            inner.collect(|| warn("b"));
            warn("c");
            warn("c");
        });
        assert_eq!(outer.lines(), ["a", "c"]);
        assert_eq!(inner.lines(), ["b"]);
        assert!(Notes::current().is_none());
    }
}
