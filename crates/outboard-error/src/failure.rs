// SPDX-License-Identifier: GPL-2.0-only
//! The error of the engine as programs see it: a kind, an errno, a text, a hint, the kernel's
//! own words.

use crate::format::escaped;
use crate::hint::Hint;
use outboard::{errno, stopped, KernelError, Stopped};
use serde::{Deserialize, Serialize};
use std::error::Error as StdError;
use std::ffi::OsStr;
use std::fmt::{Debug, Display, Formatter};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The kinds, each with the number of its code in the C API and its name. Both never change. The
/// API has 20 for its own mistakes.
macro_rules! kinds {
    ($(#[doc = $text:literal] $kind:ident = $number:literal, $name:literal;)*) => {
        /// The kind of a failure, as far as the engine knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $(#[doc = $text] $kind,)*
        }

        impl ErrorKind {
            /// All kinds.
            #[doc(hidden)]
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// The number of the C API's code.
            #[doc(hidden)]
            pub fn number(self) -> i32 {
                match self {
                    $(Self::$kind => $number,)*
                }
            }

            /// A name that never changes, as in `"wrong-key"`: for protocols and logs.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// None of the other kinds. [`Failure::errno`] may say more.
    Other = 1, "other";
    /// There is no such image, partition, volume or file.
    NotFound = 2, "not-found";
    /// The host or the file system does not permit it.
    PermissionDenied = 3, "permission-denied";
    /// There is a file of this name.
    AlreadyExists = 4, "already-exists";
    /// No known file system is there.
    NotAFileSystem = 5, "not-a-file-system";
    /// The name fits several file systems: name one of them.
    Ambiguous = 6, "ambiguous";
    /// Another program, or another volume of this one, uses the image.
    Locked = 7, "locked";
    /// Files of the volume are still open.
    InUse = 8, "in-use";
    /// The volume is encrypted, and no key was given.
    KeyNeeded = 9, "key-needed";
    /// The key opens none of the volume's key slots.
    WrongKey = 10, "wrong-key";
    /// The image contradicts itself, or a part of it cannot be read.
    Damaged = 11, "damaged";
    /// A disk of an array, a volume group or a file system is missing.
    Incomplete = 12, "incomplete";
    /// The image or file can only be read.
    ReadOnly = 13, "read-only";
    /// There is no space left, in the image or on the host.
    NoSpace = 14, "no-space";
    /// The engine or its kernel does not have what is needed.
    Unsupported = 15, "unsupported";
    /// The call makes no sense.
    Usage = 16, "usage";
    /// The caller or the user stopped the work.
    Interrupted = 17, "interrupted";
    /// The volume was closed, or is open in the parent of this forked process.
    Closed = 18, "closed";
    /// The volume's kernel has panicked.
    Crashed = 19, "crashed";
    /// A server cannot be reached, does not answer in time, or has closed the connection.
    Unreachable = 21, "unreachable";
    /// The deadline of the caller has passed.
    TimedOut = 22, "timed-out";
}

impl ErrorKind {
    /// The kind of an error of a file, a mount or a kernel.
    pub fn of(error: &io::Error) -> Self {
        if let Some(failure) = failure_in(error) {
            return failure.kind;
        }
        if let Some(stopped) = Stopped::of(error) {
            return Self::of_limit(stopped);
        }
        match KernelError::of(error) {
            Some(KernelError::Panicked) => return Self::Crashed,
            Some(KernelError::Halted | KernelError::InParent) => return Self::Closed,
            _ => {}
        }
        errno(error).map_or_else(|| Self::of_std(error.kind()), Self::of_errno)
    }

    fn of_limit(stopped: Stopped) -> Self {
        match stopped {
            Stopped::TimedOut => Self::TimedOut,
            _ => Self::Interrupted,
        }
    }

    fn of_errno(number: i32) -> Self {
        match number {
            libc::ENOENT | libc::ENXIO => Self::NotFound,
            libc::EACCES | libc::EPERM => Self::PermissionDenied,
            libc::EEXIST => Self::AlreadyExists,
            libc::EMEDIUMTYPE => Self::NotAFileSystem,
            libc::EBUSY | libc::ETXTBSY => Self::InUse,
            libc::EIO | libc::EUCLEAN | libc::EBADMSG => Self::Damaged,
            libc::EROFS => Self::ReadOnly,
            libc::ENOSPC | libc::EDQUOT => Self::NoSpace,
            libc::ECONNREFUSED
            | libc::ECONNRESET
            | libc::EHOSTDOWN
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::ENOTCONN
            | libc::ETIMEDOUT => Self::Unreachable,
            libc::EOPNOTSUPP | libc::ENOSYS | libc::ENODEV => Self::Unsupported,
            libc::EINVAL | libc::ENAMETOOLONG => Self::Usage,
            libc::EINTR => Self::Interrupted,
            _ => Self::Other,
        }
    }

    fn of_std(kind: io::ErrorKind) -> Self {
        match kind {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::PermissionDenied => Self::PermissionDenied,
            io::ErrorKind::AlreadyExists => Self::AlreadyExists,
            io::ErrorKind::InvalidInput => Self::Usage,
            io::ErrorKind::Interrupted => Self::Interrupted,
            io::ErrorKind::Unsupported => Self::Unsupported,
            io::ErrorKind::TimedOut | io::ErrorKind::ConnectionAborted => Self::Unreachable,
            _ => Self::Other,
        }
    }

    /// The kind of std that comes nearest.
    fn to_std(self) -> io::ErrorKind {
        match self {
            Self::NotFound => io::ErrorKind::NotFound,
            Self::PermissionDenied => io::ErrorKind::PermissionDenied,
            Self::AlreadyExists => io::ErrorKind::AlreadyExists,
            Self::NotAFileSystem | Self::Damaged => io::ErrorKind::InvalidData,
            Self::Ambiguous | Self::Usage => io::ErrorKind::InvalidInput,
            Self::Locked | Self::InUse => io::ErrorKind::ResourceBusy,
            Self::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
            Self::NoSpace => io::ErrorKind::StorageFull,
            Self::Unreachable => io::ErrorKind::HostUnreachable,
            Self::Unsupported => io::ErrorKind::Unsupported,
            Self::Interrupted => io::ErrorKind::Interrupted,
            Self::TimedOut => io::ErrorKind::TimedOut,
            Self::Closed => io::ErrorKind::NotConnected,
            _ => io::ErrorKind::Other,
        }
    }
}

/// An error of the engine. Its text says what failed, on which thing, why, and what to do.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    kind: ErrorKind,
    errno: Option<i32>,
    path: Option<Vec<u8>>,
    text: String,
    hint: Option<Hint>,
    kernel: Vec<String>,
}

/// The path as text: its bytes are no help to a reader.
impl Debug for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Failure")
            .field("kind", &self.kind)
            .field("errno", &self.errno)
            .field("path", &self.path())
            .field("text", &self.text)
            .field("hint", &self.hint)
            .field("kernel", &self.kernel)
            .finish()
    }
}

impl Failure {
    #[doc(hidden)]
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            errno: None,
            path: None,
            text: text.into(),
            hint: None,
            kernel: Vec::new(),
        }
    }

    /// An error whose text has the words of a hint.
    #[doc(hidden)]
    pub fn hinted(kind: ErrorKind, hint: Hint, text: impl FnOnce(&Hint) -> String) -> Self {
        Self::new(kind, text(&hint)).with_hint(hint)
    }

    /// The same error as `error`.
    #[doc(hidden)]
    pub fn of(error: &io::Error) -> Self {
        match failure_in(error) {
            Some(failure) => failure.clone(),
            None => Self {
                errno: errno(error),
                ..Self::new(ErrorKind::of(error), reason(error))
            },
        }
    }

    /// `what` failed on the file at `path`, for the reason that `error` gives. `path`: as the user
    /// would write it.
    #[doc(hidden)]
    pub fn of_file(what: &str, path: Vec<u8>, error: &io::Error) -> Self {
        let failure = Self::of(error).after(format!("{what} {}", escaped(&path)));
        failure.with_path(path)
    }

    /// The same error, of the file at `path`.
    #[doc(hidden)]
    pub fn with_path(self, path: Vec<u8>) -> Self {
        Self {
            path: Some(path),
            ..self
        }
    }

    /// The same error, whose text has the words of this hint.
    #[doc(hidden)]
    pub fn with_hint(self, hint: impl Into<Option<Hint>>) -> Self {
        Self {
            hint: hint.into(),
            ..self
        }
    }

    /// The same error, with what failed before its text.
    #[doc(hidden)]
    pub fn after(mut self, what: impl Display) -> Self {
        self.text = format!("{what}: {}", self.text);
        self
    }

    /// The same error; or that of the calling thread's limit, which has caused this one. `what`:
    /// the work that has ended, on the file at `path`.
    #[doc(hidden)]
    pub fn or_limit(self, what: impl Display, path: Vec<u8>) -> Self {
        match stopped() {
            Some(stopped) => Self::of(&stopped.into()).after(what).with_path(path),
            None => self,
        }
    }

    /// The same error with another kind and text, and nothing of the kernel's log.
    #[doc(hidden)]
    pub fn with_text(self, kind: ErrorKind, text: impl Into<String>) -> Self {
        Self {
            errno: self.errno,
            path: self.path,
            hint: self.hint,
            ..Self::new(kind, text)
        }
    }

    /// The same error with another text.
    #[doc(hidden)]
    pub fn with_message(self, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..self
        }
    }

    /// The same error, with lines of the kernel's log that explain it.
    #[doc(hidden)]
    pub fn with_kernel(mut self, lines: Vec<String>) -> Self {
        for line in &lines {
            self.text += &format!("\n  kernel: {line}");
        }
        self.kernel = lines;
        self
    }

    /// The same error, with more lines about it.
    pub(crate) fn with_note(mut self, note: &str) -> Self {
        self.text += &format!("\n{note}");
        self
    }

    /// The same error, with another name in the place of a path.
    pub(crate) fn naming(mut self, path: &str, operand: &[u8]) -> Self {
        self.text = self.text.replace(path, &escaped(operand));
        if let Some(found) = &self.path {
            if let Some(rest) = found.strip_prefix(path.as_bytes()) {
                self.path = Some([operand, rest].concat());
            }
        }
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The errno of the system call that failed, of the host or of the volume's kernel.
    pub fn errno(&self) -> Option<i32> {
        self.errno
    }

    /// The file that it is about, as the user would write it, if the engine knows one file.
    pub fn path(&self) -> Option<&Path> {
        self.path
            .as_deref()
            .map(|path| Path::new(OsStr::from_bytes(path)))
    }

    /// The advice in the text, for a caller that words it itself.
    pub fn hint(&self) -> Option<&Hint> {
        self.hint.as_ref()
    }

    /// The whole text, with the kernel's own words on lines of their own.
    pub fn message(&self) -> &str {
        &self.text
    }

    /// The lines of the kernel's log that explain it, if there are any.
    pub fn kernel_messages(&self) -> &[String] {
        &self.kernel
    }
}

impl Display for Failure {
    fn fmt(&self, formatter: &mut Formatter) -> std::fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl StdError for Failure {}

/// The reason of an error, without the number that Rust adds to it, also inside an explanation.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match errno(error) {
        Some(number) => text.replace(&format!(" (os error {number})"), ""),
        None => text,
    }
}

/// The failure that an [`io::Error`] was made of.
fn failure_in(error: &io::Error) -> Option<&Failure> {
    error.get_ref()?.downcast_ref()
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::of(&error)
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        io::Error::new(failure.kind.to_std(), failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_text_in_debug_output() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        let failure = Failure::of_file("cannot read", b"a:/b\xff".to_vec(), &error);
        let text = format!("{failure:?}");
        assert!(text.contains(r#"path: Some("a:/b\xFF")"#), "{text}");
    }

    #[test]
    fn reasons_have_no_numbers() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(reason(&error), "No such file or directory");
        assert_eq!(reason(&io::Error::other("why (x)")), "why (x)");
        let text = format!("directory /a: {error}: not there");
        let explained = outboard::explained(error, text);
        let expected = "directory /a: No such file or directory: not there";
        assert_eq!(reason(&explained), expected);
    }

    #[test]
    fn kinds_of_io_errors() {
        let of = |number| ErrorKind::of(&io::Error::from_raw_os_error(number));
        assert_eq!(of(libc::ENOENT), ErrorKind::NotFound);
        assert_eq!(of(libc::EIO), ErrorKind::Damaged);
        assert_eq!(of(libc::E2BIG), ErrorKind::Other);
        let halted = io::Error::from(KernelError::Halted);
        assert_eq!(ErrorKind::of(&halted), ErrorKind::Closed);
        let panicked = io::Error::from(KernelError::Panicked);
        assert_eq!(ErrorKind::of(&panicked), ErrorKind::Crashed);
        let explained = outboard::explained(panicked, "cannot list a");
        assert_eq!(ErrorKind::of(&explained), ErrorKind::Crashed);
        assert_eq!(Failure::of(&explained).errno(), Some(libc::ENODEV));
        // A device without a driver, in a kernel that works.
        assert_eq!(of(libc::ENODEV), ErrorKind::Unsupported);
        // Text that is not UTF-8 is no damage of the image.
        let data = io::Error::new(io::ErrorKind::InvalidData, "bad");
        assert_eq!(ErrorKind::of(&data), ErrorKind::Other);
    }

    #[test]
    fn limits_of_the_caller() {
        let cancelled = ErrorKind::of(&Stopped::Cancelled.into());
        assert_eq!(cancelled, ErrorKind::Interrupted);
        let late = io::Error::from(Failure::of(&Stopped::TimedOut.into()));
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        assert_eq!(ErrorKind::of(&late), ErrorKind::TimedOut);
        let server = io::Error::from_raw_os_error(libc::ETIMEDOUT);
        assert_eq!(ErrorKind::of(&server), ErrorKind::Unreachable);
        let cancel = outboard::Cancel::new();
        cancel.cancel();
        let failure = || Failure::of(&server).or_limit("cannot open a", b"a".to_vec());
        assert_eq!(failure().kind(), ErrorKind::Unreachable);
        let failure = cancel.run(failure);
        assert_eq!(failure.kind(), ErrorKind::Interrupted);
        assert_eq!(failure.message(), "cannot open a: cancelled");
    }

    #[test]
    fn failures_survive_as_io_errors() {
        let failure = Failure::of(&io::Error::from_raw_os_error(libc::EROFS))
            .after("cannot read a")
            .with_kernel(vec!["vda: bad".to_owned()]);
        assert_eq!(failure.kind(), ErrorKind::ReadOnly);
        let error = io::Error::from(failure.clone());
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
        let text = "cannot read a: Read-only file system\n  kernel: vda: bad";
        assert_eq!(error.to_string(), text);
        assert_eq!(ErrorKind::of(&error), ErrorKind::ReadOnly);
        let again = Failure::of(&error).after("b");
        assert_eq!(again.errno(), Some(libc::EROFS));
        assert_eq!(again.message(), format!("b: {text}"));
        assert_eq!(Failure::from(error), failure);
    }
}
