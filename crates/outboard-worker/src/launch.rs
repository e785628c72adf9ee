// SPDX-License-Identifier: GPL-2.0-only
//! A program to start as a second process.

use crate::process::Process;
use crate::starter::Starter;
use outboard_sys::{end_with_parent, make_files_private};
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Interval of looks while a program runs.
const INTERVAL: Duration = Duration::from_millis(50);

type Rights = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// A program to start. By default it has the environment, the standard streams, the working
/// directory, the process group and the rights of this process, and is killed when its [`Process`]
/// is dropped.
pub struct Launch {
    command: Command,
    rights: Option<Rights>,
    ends_with_parent: bool,
    outlives: bool,
}

/// A program that runs, with the pipes to it.
#[derive(Debug)]
pub struct Started {
    /// The process.
    pub process: Process,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Launch {
    /// A program: a path, or a name that PATH has.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            command: Command::new(program),
            rights: None,
            ends_with_parent: false,
            outlives: false,
        }
    }

    /// This program again.
    pub fn this_program() -> Self {
        Self::new("/proc/self/exe")
    }

    /// Sets the name that the program sees as its own.
    pub fn name(mut self, name: impl AsRef<OsStr>) -> Self {
        self.command.arg0(name);
        self
    }

    /// Adds one argument.
    pub fn argument(mut self, word: impl AsRef<OsStr>) -> Self {
        self.command.arg(word);
        self
    }

    /// Adds several arguments.
    pub fn arguments<I: IntoIterator>(mut self, words: I) -> Self
    where
        I::Item: AsRef<OsStr>,
    {
        self.command.args(words);
        self
    }

    /// Gives the program no variable of the environment but those that are added later.
    pub fn clear_environment(mut self) -> Self {
        self.command.env_clear();
        self
    }

    /// Sets a variable of the environment.
    pub fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the working directory.
    pub fn directory(mut self, path: impl AsRef<Path>) -> Self {
        self.command.current_dir(path);
        self
    }

    /// Makes the program the leader of a process group: no signal of a terminal reaches it.
    pub fn own_group(mut self) -> Self {
        self.command.process_group(0);
        self
    }

    /// Files that the program makes are for their owner alone.
    pub fn private_files(mut self) -> Self {
        make_files_private(&mut self.command);
        self
    }

    /// Has the host ask the program to end (SIGTERM) when this process ends.
    pub fn ends_with_parent(mut self) -> Self {
        end_with_parent(&mut self.command);
        self.ends_with_parent = true;
        self
    }

    /// The program goes on when its [`Process`] is dropped, or when this process ends.
    pub fn outlives(mut self) -> Self {
        self.outlives = true;
        self
    }

    /// Restricts the program. `restrict` is called on the thread that starts the program, and
    /// restricts that thread alone.
    pub fn rights(mut self, restrict: impl FnOnce() -> io::Result<()> + Send + 'static) -> Self {
        self.rights = Some(Box::new(restrict));
        self
    }

    /// Sets standard input.
    pub fn stdin(mut self, stdin: impl Into<Stdio>) -> Self {
        self.command.stdin(stdin);
        self
    }

    /// Sets standard output.
    pub fn stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.command.stdout(stdout);
        self
    }

    /// Sets standard error.
    pub fn stderr(mut self, stderr: impl Into<Stdio>) -> Self {
        self.command.stderr(stderr);
        self
    }

    /// Starts the program.
    pub fn start(self) -> io::Result<Started> {
        let (mut command, rights) = (self.command, self.rights);
        let (mut child, starter) = if rights.is_some() || self.ends_with_parent {
            let (child, starter) = Starter::start(move || {
                rights.map_or(Ok(()), |restrict| restrict())?;
                command.spawn()
            })?;
            (child, Some(starter))
        } else {
            (command.spawn()?, None)
        };
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Ok(Started {
            process: Process::new(child, self.outlives, starter),
            stdin,
            stdout,
            stderr,
        })
    }
}

impl Started {
    /// Writes `input`, has the output read, and waits for the end. The readers run on threads of
    /// their own, one for each pipe. `look` is called until the pipes are closed, which happens
    /// when the program ends.
    pub fn attend(
        self,
        input: &[u8],
        read_output: impl FnOnce(ChildStdout) + Send,
        read_errors: impl FnOnce(ChildStderr) + Send,
        mut look: impl FnMut(&Process),
    ) -> io::Result<ExitStatus> {
        let Self {
            process,
            stdin,
            stdout,
            stderr,
        } = self;
        let (output_open, open) = channel::<()>();
        let errors_open = output_open.clone();
        thread::scope(|scope| {
            if let Some(mut stdin) = stdin {
                // A program that does not read its input will say why.
                scope.spawn(move || stdin.write_all(input));
            }
            scope.spawn(move || {
                stdout.map(read_output);
                drop(output_open);
            });
            scope.spawn(move || {
                stderr.map(read_errors);
                drop(errors_open);
            });
            while open.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                look(&process);
            }
        });
        process.wait()
    }

    /// Waits for the end. Returns what the program has written on standard error, if that is a
    /// pipe.
    pub fn wait_with_errors(self) -> io::Result<(ExitStatus, Vec<u8>)> {
        let mut errors = Vec::new();
        drop((self.stdin, self.stdout));
        if let Some(mut stderr) = self.stderr {
            stderr.read_to_end(&mut errors)?;
        }
        Ok((self.process.wait()?, errors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ProcessEnd;
    use std::fs::File;
    use std::io::{BufRead, BufReader};

    fn shell(script: &str) -> Launch {
        Launch::new("/bin/sh").arguments(["-c", script])
    }

    fn is_running(process: u32) -> bool {
        File::open(format!("/proc/{process}/stat")).is_ok()
    }

    #[test]
    fn the_end_of_a_program_is_known() {
        for (script, wanted) in [
            ("exit 0", ProcessEnd::Exited(0)),
            ("exit 3", ProcessEnd::Exited(3)),
            ("exit 70", ProcessEnd::Panicked),
            ("kill -SEGV $$", ProcessEnd::Killed(libc::SIGSEGV)),
        ] {
            let started = shell(script).start().unwrap();
            assert_eq!(ProcessEnd::from(started.process.wait().unwrap()), wanted);
        }
    }

    #[test]
    fn a_dropped_program_is_killed() {
        let started = shell("read -r line").stdin(Stdio::piped()).start().unwrap();
        let number = started.process.id();
        // The pipe stays open: only the signal can end the program.
        let Started { process, stdin, .. } = started;
        assert!(is_running(number));
        drop(process);
        assert!(!is_running(number));
        drop(stdin);
    }

    #[test]
    fn a_program_may_outlive_its_process() {
        let started = shell("read -r line; echo \"$line\" >&2")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .outlives()
            .start()
            .unwrap();
        let Started {
            process,
            stdin,
            stderr,
            ..
        } = started;
        drop(process);
        stdin.unwrap().write_all(b"still here\n").unwrap();
        let mut text = String::new();
        stderr.unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "still here\n");
    }

    #[test]
    fn a_request_to_stop_is_passed_on_once() {
        let script = "trap 'echo asked >&2; n=x$n' TERM; echo ready; \
                      while [ -z \"$n\" ]; do sleep 0.01; done; exit 5";
        let started = shell(script)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .start()
            .unwrap();
        let Started {
            process,
            stdout,
            stderr,
            ..
        } = started;
        let mut ready = String::new();
        BufReader::new(stdout.unwrap())
            .read_line(&mut ready)
            .unwrap();
        let status = process.wait_or_stop(libc::SIGTERM, || true).unwrap();
        assert_eq!(status.code(), Some(5));
        let mut text = String::new();
        stderr.unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "asked\n");
    }

    #[test]
    fn a_program_without_rights_does_not_start() {
        let refused = shell("exit 0").rights(|| Err(io::Error::other("no sandbox")));
        assert_eq!(refused.start().unwrap_err().to_string(), "no sandbox");
        let panics = shell("exit 0").rights(|| panic!("a mistake"));
        assert!(panics.start().is_err());
    }

    /// As for a program that does not react to an interrupt.
    #[test]
    fn a_look_can_end_a_group() {
        let started = shell("sleep 1000 & echo $!; wait")
            .own_group()
            .ends_with_parent()
            .stdout(Stdio::piped())
            .start()
            .unwrap();
        let mut child = String::new();
        let status = started.attend(
            b"",
            |mut output| drop(output.read_to_string(&mut child)),
            |_| (),
            |process| process.signal_group(libc::SIGKILL).unwrap(),
        );
        let end = ProcessEnd::from(status.unwrap());
        assert_eq!(end, ProcessEnd::Killed(libc::SIGKILL));
    }

    #[test]
    fn input_and_both_outputs_are_attended() {
        let (mut text, mut errors) = (String::new(), String::new());
        let started = shell("cat; echo wrong >&2; exit 1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .start()
            .unwrap();
        let input = "x".repeat(1 << 20);
        let status = started.attend(
            input.as_bytes(),
            |mut output| drop(output.read_to_string(&mut text)),
            |mut output| drop(output.read_to_string(&mut errors)),
            |_| (),
        );
        assert_eq!(status.unwrap().code(), Some(1));
        assert_eq!((text, errors.as_str()), (input, "wrong\n"));
    }
}
