// SPDX-License-Identifier: GPL-2.0-only
//! The exit codes of the program.

use outboard_error::{Error, Result};
use outboard_sandbox::crash;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU8, Ordering};

/// The exit code of a failure.
static FAILURE_CODE: AtomicU8 = AtomicU8::new(1);
/// A wrong command line.
const USAGE: u8 = 2;
/// A check of a file system could not be made, as fsck(8) reports it.
pub const CHECK_FAILED: u8 = 8;
/// The code that shells give for SIGINT.
const INTERRUPTED: u8 = 130;
/// The code that shells give for SIGPIPE.
const READER_GONE: u8 = 128 + libc::SIGPIPE as u8;

/// From now on failures have this exit code. For commands whose code 1 is no failure: diff(1),
/// fsck(8).
pub fn set_failure_code(code: u8) {
    FAILURE_CODE.store(code, Ordering::Relaxed);
}

/// Does `work`, in which failures have this exit code.
pub fn with_failure_code<T>(code: u8, work: impl FnOnce() -> T) -> T {
    let before = FAILURE_CODE.swap(code, Ordering::Relaxed);
    let result = work();
    FAILURE_CODE.store(before, Ordering::Relaxed);
    result
}

/// The exit code of a program that fails, or that a signal asked to end.
pub fn failure_code() -> u8 {
    exit_code(FAILURE_CODE.load(Ordering::Relaxed))
}

/// The exit code of a program that ends with `code` unless a signal asked it to end: a shell or a
/// script has to learn of the signal.
pub fn exit_code(code: u8) -> u8 {
    signal_code().unwrap_or(code)
}

/// The exit code of a program that a signal asked to end; `None` if none did.
fn signal_code() -> Option<u8> {
    let first = outboard::signals::first()?;
    u8::try_from(128 + first).ok()
}

/// The exit code of a command that did its work: 0, or what the command has found, as diff(1) and
/// fsck(8) report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandStatus(pub u8);

impl CommandStatus {
    pub const SUCCESS: Self = Self(0);
}

impl From<()> for CommandStatus {
    fn from(_: ()) -> Self {
        Self::SUCCESS
    }
}

/// Of a program that a command has run.
impl From<ExitStatus> for CommandStatus {
    fn from(status: ExitStatus) -> Self {
        let signal = || 128 + status.signal().unwrap_or_default();
        Self(status.code().unwrap_or_else(signal) as u8)
    }
}

/// The exit code of a program whose command ends with this result.
pub fn code_of_result(result: &Result<CommandStatus>) -> u8 {
    match result {
        Ok(status) => status.0,
        Err(error) => code_of(error),
    }
}

/// The exit code of a program that ends with this error.
pub fn code_of(error: &Error) -> u8 {
    match error {
        Error::Usage(_) => USAGE,
        Error::Interrupted(_) => exit_code(INTERRUPTED),
        Error::Panicked => crash::CODE,
        Error::ReaderGone => READER_GONE,
        _ => FAILURE_CODE.load(Ordering::Relaxed),
    }
}

/// Whether the host may be the reason of a failure, and not the command line, the user, or what was
/// compared.
pub fn may_be_of_the_host(result: &Result<CommandStatus>) -> bool {
    match result {
        Ok(status) => status.0 == CHECK_FAILED,
        Err(Error::Usage(_) | Error::Interrupted(_) | Error::Panicked | Error::ReaderGone) => false,
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_the_code_of_the_command() {
        let failed = || code_of(&Error::Failed("bad".to_owned()));
        let codes = with_failure_code(8, || {
            let codes = [failed(), code_of(&Error::AlreadyReported), failure_code()];
            assert_eq!(code_of(&Error::Usage("bad".to_owned())), 2);
            codes
        });
        assert_eq!(codes, [8; 3]);
        assert_eq!([failed(), failure_code()], [1; 2]);
    }
}
