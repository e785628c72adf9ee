// SPDX-License-Identifier: GPL-2.0-only
//! A keeper: a process of this program in the background that keeps what another process serves.
//! Its standard output is a channel to the command that has started it.
//!
//! | from | to | message | then |
//! |---|---|---|---|
//! | keeper | command | [`KeeperReady`] | the command ends; the keeper goes on |
//! | command | keeper | [`CommandDone`] | the keeper writes to the system's log from now on |

use outboard::signals;
use outboard_error::{warn, Error, Result};
use outboard_sandbox::interrupt::ending_signals;
use outboard_worker::{Launch, Parent, ProcessEnd, WorkerError, WorkerProcess};
use serde::{Deserialize, Serialize};
use signal_hook::consts::SIGINT;
use signal_hook::low_level::pipe;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;

/// Most bytes of a message.
pub const LONGEST: usize = 64;
/// Severity "error" of a daemon, in the form of syslog(3).
const PRIORITY: &str = "<27>";

/// All is well: what the keeper keeps can be used.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeeperReady;

/// The command was there to learn of that.
#[derive(Debug, Serialize, Deserialize)]
pub struct CommandDone;

/// The keeper, seen from the command.
type KeeperProcess = WorkerProcess<CommandDone, KeeperReady>;
/// The command, seen from the keeper.
type KeeperParent = Parent<CommandDone, KeeperReady>;

fn print_line(line: &[u8]) {
    // There is nobody to tell of an error here.
    let _ = io::stderr().write_all(&[line, b"\n"].concat());
}

/// Starts a keeper in the background, and waits until all is well. `cannot`: an error of that.
pub fn start(launch: Launch, cannot: fn(io::Error) -> Error) -> Result<()> {
    let reported = |error| reported(error, cannot);
    let keeper = KeeperProcess::program_with_lines(launch, LONGEST, print_line);
    let mut keeper = keeper.map_err(cannot)?;
    keeper.receive(None).map_err(reported)?;
    keeper.end_lines();
    keeper.send(&CommandDone, None).map_err(reported)
}

/// The error of a process whose server or keeper has ended, and has reported why.
pub fn reported(error: WorkerError, cannot: fn(io::Error) -> Error) -> Error {
    match error {
        WorkerError::Ended(ProcessEnd::Panicked) => Error::Panicked,
        WorkerError::Host(error) => cannot(error),
        _ => Error::AlreadyReported,
    }
}

/// From now on, `tell` is called for each signal that asks to end, until it returns false.
pub fn catch_signals(tell: impl Fn() -> bool + Send + 'static) -> Result<()> {
    let catch = || {
        let (mut ours, theirs) = UnixStream::pair()?;
        signals::release()?;
        for signal in ending_signals().into_iter().chain([SIGINT]) {
            pipe::register(signal, theirs.try_clone()?)?;
        }
        thread::Builder::new().spawn(move || {
            let mut byte = [0];
            while matches!(ours.read(&mut byte), Ok(1)) && tell() {}
        })
    };
    let caught = catch().map(drop);
    caught.map_err(|error| Error::failed("cannot catch signals", &error))
}

/// The destination of messages.
#[derive(Clone)]
pub struct Voice {
    background: bool,
    /// The command that waited has ended.
    alone: Arc<AtomicBool>,
}

impl Voice {
    /// `background`: a command waits until all is well.
    pub fn new(background: bool) -> Self {
        Self {
            background,
            alone: Arc::default(),
        }
    }

    pub fn is_in_background(&self) -> bool {
        self.background
    }

    fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed)
    }

    /// A line that is fit for a terminal.
    pub fn line(&self, line: &str) {
        if !self.is_alone() {
            let _ = writeln!(io::stderr(), "{line}");
            return;
        }
        // Without a system log there is nobody to tell.
        let _ = UnixDatagram::unbound()
            .and_then(|log| log.send_to(format!("{PRIORITY}{line}").as_bytes(), "/dev/log"));
    }

    pub fn tell(&self, message: &str) {
        if self.is_alone() {
            self.line(&format!(
                "outboard: {}",
                outboard_error::format::message(message)
            ));
        } else {
            warn(message);
        }
    }

    /// All is well. Returns whether the command that waits for this was there to hear it.
    pub fn ready(&self) -> bool {
        if !self.background {
            return true;
        }
        let done = KeeperParent::of_program().is_ok_and(|mut command| {
            let sent = command.send(&KeeperReady);
            sent.is_ok() && matches!(command.receive(), Ok(Some(CommandDone)))
        });
        self.alone.store(true, Ordering::Relaxed);
        done
    }

    /// An error as it leaves this process: told already if nobody reads it otherwise.
    pub fn last(&self, error: Error) -> Error {
        match error.message() {
            Some(message) if self.is_alone() => {
                self.tell(message);
                Error::AlreadyReported
            }
            _ => error,
        }
    }
}
