// SPDX-License-Identifier: GPL-2.0-only
//! The front of the engine in this process: a program, or a library for another language.

use crate::hint::Hint;
use crate::reported::{Kept, Reported};
use std::fmt::{Display, Formatter};
use std::io;
use std::sync::OnceLock;

/// The front of the engine. A process has one, as it has one locale. The engine itself prints
/// nothing: without a front, or with the defaults of these functions, it is silent.
///
/// Calls of the library collect reports in [`Notes`](crate::Notes) instead.
pub trait Front: Sync {
    /// Its words for a hint. `None`: the neutral ones.
    fn words(&self, _hint: &Hint) -> Option<String> {
        None
    }

    /// A failure after which the work goes on.
    fn failure(&self, _failure: Reported) {}

    /// A note or a warning.
    fn warning(&self, _message: String) {}

    /// The exit code of this process if the engine has to end it with a failure.
    fn failure_code(&self) -> u8 {
        1
    }

    /// A line of a tool of the distribution whose output the user wants to see.
    fn tool_line(&self, _line: &str) -> io::Result<()> {
        Ok(())
    }

    /// Whether tools show on standard error how far they are.
    fn shows_progress(&self) -> bool {
        false
    }

    /// Work on this many bytes begins, as in "decompressing". The result gets the counts of bytes
    /// that were done, and is dropped at the end of the work.
    fn progress(&self, _work: &'static str, _bytes: u64) -> Box<dyn Fn(u64) + Send> {
        Box::new(|_| {})
    }

    /// A line of the log of a kernel in this process, which the user wants to see. A vCPU is held
    /// meanwhile: this must not wait for a reader.
    fn kernel_line(&self, _line: &[u8]) {}

    /// A warning of a kernel in this process, or worse, with its newline: for those who look for
    /// mistakes of the kernel, not for the user. It runs as `kernel_line` does.
    fn kernel_warning(&self, _line: &[u8]) {}

    /// A kernel boots in this process, which will end with it. Returns the function that prints the
    /// text of a panic.
    fn at_panic(&self) -> io::Result<Box<AtPanic>> {
        Ok(Box::new(|_, _| {}))
    }

    /// This process is a copy of another one, whose reports are not its own.
    fn begin_copy(&self) {}

    /// This process, a copy, ends. Returns all that was reported in it.
    fn end_copy(&self) -> Kept {
        Kept::default()
    }

    /// Takes what a copy of this process has reported to its own front.
    fn add_of_copy(&self, _reports: Kept) {}
}

/// Prints the text of a kernel's panic and lines of advice. It runs on the thread that panics,
/// maybe in a signal handler: it makes plain system calls, waits for no lock, allocates nothing.
pub type AtPanic = dyn Fn(&[u8], &str) + Send + Sync;

struct Silent;

impl Front for Silent {}

static FRONT: OnceLock<&'static dyn Front> = OnceLock::new();

/// Installs the front of this process. Only the first one counts.
pub fn install(front: &'static dyn Front) {
    FRONT.get_or_init(|| front);
}

/// The front of this process.
pub fn front() -> &'static dyn Front {
    FRONT.get().copied().unwrap_or(&Silent)
}

impl Display for Hint {
    /// The words of the front, or neutral ones.
    fn fmt(&self, formatter: &mut Formatter) -> std::fmt::Result {
        let words = front().words(self);
        formatter.write_str(&words.unwrap_or_else(|| self.neutral()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{report, warn};
    use std::sync::Mutex;

    #[derive(Default)]
    struct Recorder {
        heard: Mutex<Vec<String>>,
    }

    impl Recorder {
        fn add(&self, text: String) {
            self.heard.lock().unwrap().push(text);
        }
    }

    impl Front for Recorder {
        fn words(&self, hint: &Hint) -> Option<String> {
            (*hint == Hint::KeyFile).then(|| "use --key".to_owned())
        }

        fn failure(&self, failure: Reported) {
            self.add(failure.message);
        }

        fn warning(&self, message: String) {
            self.add(message);
        }
    }

    #[test]
    fn the_front_words_hints_and_gets_reports() {
        let texts = || [Hint::KeyFile, Hint::GivenKey].map(|hint| hint.to_string());
        assert_eq!(texts(), ["give its key", "the given key"]);
        warn("too early");
        static RECORDER: OnceLock<Recorder> = OnceLock::new();
        install(RECORDER.get_or_init(Recorder::default));
        assert_eq!(texts(), ["use --key", "the given key"]);
        warn("a");
        report("b".to_owned());
        let heard = RECORDER.get().unwrap().heard.lock().unwrap();
        assert_eq!(*heard, ["a", "b"]);
    }
}
