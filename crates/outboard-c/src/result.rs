// SPDX-License-Identifier: GPL-2.0-only
//! Results of calls: numbers for the caller, and the last failure of each thread.

use outboard::StandardNumbers;
use outboard_volume::{Error, ErrorKind};
use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int, CStr, CString};
use std::fmt::Display;
use std::io;
use std::panic::{catch_unwind, set_hook, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

/// A failure of a call.
pub struct CallFailure {
    code: c_int,
    errno: c_int,
    message: String,
    kernel: String,
}

pub type Result<T> = std::result::Result<T, CallFailure>;

/// `OB_VOLUME_INTERNAL`, which no kind of the Rust API stands for.
const INTERNAL: c_int = -20;

/// The code in `enum ob_volume_error`.
fn code_of(kind: ErrorKind) -> c_int {
    -kind.number()
}

impl CallFailure {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            code: code_of(kind),
            errno: 0,
            message: message.into(),
            kernel: String::new(),
        }
    }

    /// The call makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// A mistake in this library.
    pub fn internal(message: String) -> Self {
        Self {
            code: INTERNAL,
            ..Self::new(ErrorKind::Other, message)
        }
    }

    /// `what` failed for the reason that `error` gives.
    pub fn of_io(what: impl Display, error: io::Error) -> Self {
        let error = Error::from(error);
        let message = format!("{what}: {}", error.message());
        Self {
            message,
            ..Self::from(error)
        }
    }
}

impl From<Error> for CallFailure {
    fn from(error: Error) -> Self {
        Self {
            code: code_of(error.kind()),
            errno: error.errno().unwrap_or(0),
            message: error.message().to_owned(),
            kernel: error.kernel_messages().join("\n"),
        }
    }
}

/// The texts of a thread's last failure.
#[derive(Default)]
struct Last {
    errno: c_int,
    message: CString,
    kernel: CString,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
    /// Text and place of a panic on this thread.
    static PANIC: RefCell<String> = RefCell::default();
    /// How many callbacks of the program this thread is in.
    static CALLBACKS: Cell<u32> = const { Cell::new(0) };
}

fn c_text(text: String) -> CString {
    let bytes = text.into_bytes().into_iter().filter(|&byte| byte != 0);
    CString::new(bytes.collect::<Vec<u8>>()).unwrap_or_default()
}

impl CallFailure {
    /// Keeps the texts for the thread. Returns `-errno`, for headers whose codes these are.
    fn report_errno(self) -> c_int {
        let errno = match (self.errno, self.code) {
            (0, code) if code == code_of(ErrorKind::Usage) => libc::EINVAL,
            (0, INTERNAL) => libc::ENOTRECOVERABLE,
            (0, _) => libc::EIO,
            (errno, _) => errno,
        };
        self.report();
        -errno
    }

    /// Keeps the texts for the thread. Returns the code.
    fn report(self) -> c_int {
        let last = Last {
            errno: self.errno,
            message: c_text(self.message),
            kernel: c_text(self.kernel),
        };
        // A thread that ends may have no variables any more.
        let _ = LAST.try_with(|slot| slot.replace(last));
        self.code
    }
}

/// Keeps the text of a panic for the caller, and prints nothing.
fn keep_panic(panic: &PanicHookInfo) {
    let _ = PANIC.try_with(|slot| slot.replace(panic.to_string()));
}

/// Does the work of a call. A panic becomes a failure. No descriptor of the library gets a standard
/// number that the program has closed.
pub fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| set_hook(Box::new(keep_panic)));
    let _standard = StandardNumbers::occupy();
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let text = PANIC.try_with(RefCell::take).unwrap_or_default();
        Err(CallFailure::internal(format!(
            "a mistake in this library of Outboard: {text}; please report it"
        )))
    })
}

/// Does the work of a call that returns 0 or an error.
pub fn status(work: impl FnOnce() -> Result<()>) -> c_int {
    code(|| work().map(|()| 0))
}

/// Does the work of a call that returns a number or an error.
pub fn code(work: impl FnOnce() -> Result<c_int>) -> c_int {
    caught(work).unwrap_or_else(CallFailure::report)
}

/// Does the work of a call that returns a number or `-errno`.
pub fn number_or_errno(work: impl FnOnce() -> Result<c_int>) -> c_int {
    caught(work).unwrap_or_else(CallFailure::report_errno)
}

/// Does the work of a call that returns a count or an error.
pub fn count(work: impl FnOnce() -> Result<i64>) -> i64 {
    caught(work).unwrap_or_else(|failure| i64::from(failure.report()))
}

/// Runs a callback of the program on this thread.
pub fn in_callback<T>(callback: impl FnOnce() -> T) -> T {
    CALLBACKS.set(CALLBACKS.get() + 1);
    let result = callback();
    CALLBACKS.set(CALLBACKS.get() - 1);
    result
}

/// Whether a callback of the program runs on this thread.
pub fn is_in_callback() -> bool {
    CALLBACKS.get() > 0
}

fn last_text(text: impl FnOnce(&Last) -> *const c_char) -> *const c_char {
    LAST.try_with(|last| text(&last.borrow()))
        .unwrap_or(c"".as_ptr())
}

#[no_mangle]
pub extern "C" fn ob_volume_error() -> *const c_char {
    last_text(|last| last.message.as_ptr())
}

#[no_mangle]
pub extern "C" fn ob_serve_error() -> *const c_char {
    last_text(|last| last.message.as_ptr())
}

#[no_mangle]
pub extern "C" fn ob_volume_error_kernel_log() -> *const c_char {
    last_text(|last| last.kernel.as_ptr())
}

#[no_mangle]
pub extern "C" fn ob_volume_errno() -> c_int {
    LAST.try_with(|last| last.borrow().errno).unwrap_or(0)
}

fn name_of(code: c_int) -> &'static CStr {
    match code {
        0.. => c"ok",
        -2 => c"not-found",
        -3 => c"permission-denied",
        -4 => c"already-exists",
        -5 => c"not-a-file-system",
        -6 => c"ambiguous",
        -7 => c"locked",
        -8 => c"in-use",
        -9 => c"key-needed",
        -10 => c"wrong-key",
        -11 => c"damaged",
        -12 => c"incomplete",
        -13 => c"read-only",
        -14 => c"no-space",
        -15 => c"unsupported",
        -16 => c"usage",
        -17 => c"interrupted",
        -18 => c"closed",
        -19 => c"crashed",
        -21 => c"unreachable",
        -22 => c"timed-out",
        INTERNAL => c"internal",
        _ => c"other",
    }
}

#[no_mangle]
pub extern "C" fn ob_volume_error_name(error: c_int) -> *const c_char {
    name_of(error).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_have_the_names_of_their_kinds() {
        let codes: BTreeSet<c_int> = ErrorKind::ALL.iter().copied().map(code_of).collect();
        let mut expected: BTreeSet<c_int> = (-22..0).collect();
        expected.remove(&INTERNAL);
        assert_eq!(codes, expected);
        let header = include_str!("../include/outboard/volume.h");
        for &kind in ErrorKind::ALL {
            assert_eq!(name_of(code_of(kind)).to_str(), Ok(kind.name()));
            let constant = kind.name().to_uppercase().replace('-', "_");
            let line = format!("\tOB_VOLUME_{constant} = {}", code_of(kind));
            let found = header.lines().any(|found| {
                let rest = found.strip_prefix(&line);
                rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
            });
            assert!(found, "{line}");
        }
    }

    #[test]
    fn panics_are_failures() {
        assert_eq!(status(|| panic!("here")), INTERNAL);
        let text = LAST.with_borrow(|last| last.message.clone());
        let text = text.to_string_lossy();
        assert!(
            text.contains("here") && text.contains("result.rs"),
            "{text}"
        );
        assert_eq!(count(|| Ok(3)), 3);
    }

    #[test]
    fn failures_keep_their_texts() {
        let error = io::Error::from_raw_os_error(libc::EROFS);
        assert_eq!(
            status(|| Err(CallFailure::of_io("cannot write a", error))),
            -13
        );
        LAST.with_borrow(|last| {
            let text = last.message.to_string_lossy();
            assert_eq!(text, "cannot write a: Read-only file system");
            assert_eq!(last.errno, libc::EROFS);
        });
    }
}
