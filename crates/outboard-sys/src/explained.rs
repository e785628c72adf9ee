// SPDX-License-Identifier: GPL-2.0-only
//! Errors that have an explanation and keep their errno, and those of calls that a limit has ended.

use crate::kernel_error::KernelError;
use crate::stopped::Stopped;
use std::error::Error;
use std::fmt;
use std::io;

/// The payload of an [`io::Error`] with an explanation. Its source is the error of the system call.
#[derive(Debug)]
struct Explained {
    text: String,
    cause: io::Error,
}

impl fmt::Display for Explained {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Error for Explained {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

/// An error that shows this text. [`errno`] still finds the errno of its cause.
pub fn explained(cause: io::Error, text: impl Into<String>) -> io::Error {
    let text = text.into();
    io::Error::new(cause.kind(), Explained { text, cause })
}

/// The error that an explained error is about.
fn cause(error: &io::Error) -> Option<&io::Error> {
    Some(&error.get_ref()?.downcast_ref::<Explained>()?.cause)
}

/// The errno of an error, or of the system call that an explained error is about. ENODEV: also of a
/// kernel that takes no calls. ECANCELED, ETIMEDOUT: also of a limit.
pub fn errno(error: &io::Error) -> Option<i32> {
    match error.raw_os_error() {
        Some(number) => Some(number),
        None if KernelError::of(error).is_some_and(KernelError::is_gone) => Some(libc::ENODEV),
        None => match Stopped::of(error) {
            Some(stopped) => Some(stopped.errno()),
            None => errno(cause(error)?),
        },
    }
}

impl KernelError {
    /// The reason that an error has, or that an explained error is about, if it is one of these.
    pub fn of(error: &io::Error) -> Option<Self> {
        match error.get_ref()?.downcast_ref() {
            Some(found) => Some(*found),
            None => Self::of(cause(error)?),
        }
    }
}

impl Stopped {
    /// The limit that an error comes from, or that an explained error is about, if it does.
    pub fn of(error: &io::Error) -> Option<Self> {
        match error.get_ref()?.downcast_ref() {
            Some(found) => Some(*found),
            None => Self::of(cause(error)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanations_keep_the_errno() {
        let cause = io::Error::from_raw_os_error(libc::ENOEXEC);
        let kind = cause.kind();
        let error = explained(explained(cause, "bad module"), "cannot load it");
        assert_eq!(error.to_string(), "cannot load it");
        assert_eq!(error.kind(), kind);
        assert_eq!(errno(&error), Some(libc::ENOEXEC));
        let source = error.source().and_then(|inner| inner.downcast_ref());
        assert_eq!(source.and_then(errno), Some(libc::ENOEXEC));
        assert_eq!(errno(&io::Error::other("text")), None);
    }

    #[test]
    fn explanations_keep_the_state_of_the_kernel() {
        for state in [
            KernelError::Halted,
            KernelError::Panicked,
            KernelError::InParent,
        ] {
            let error = explained(explained(state.into(), "cannot read"), "cannot copy");
            assert_eq!(KernelError::of(&error), Some(state));
            assert_eq!(errno(&error), Some(libc::ENODEV));
        }
        assert_eq!(errno(&KernelError::TooMany.into()), None);
        let missing = io::Error::from_raw_os_error(libc::ENODEV);
        assert_eq!(KernelError::of(&missing), None);
    }

    #[test]
    fn limits_survive_explanations() {
        let error = explained(Stopped::TimedOut.into(), "cannot read a");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(Stopped::of(&error), Some(Stopped::TimedOut));
        assert_eq!(errno(&error), Some(libc::ETIMEDOUT));
        let cancelled = io::Error::from(Stopped::Cancelled);
        assert_ne!(cancelled.kind(), io::ErrorKind::Interrupted);
        assert_eq!(errno(&cancelled), Some(libc::ECANCELED));
        let server = io::Error::from_raw_os_error(libc::ETIMEDOUT);
        assert_eq!(Stopped::of(&server), None);
    }
}
