// SPDX-License-Identifier: GPL-2.0-only
//! The keeper: mounts, starts the server, and unmounts when it is asked to end.
//!
//! In the background, the command that started it shows what it writes on standard error, until the
//! file system can be used ([`keeper`]). After that it writes to the system's
//! log.

use super::plan::Plan;
use super::protocol::{ServerProcess, ServerStep};
use crate::commands::keeper::{self, Voice, LONGEST};
use outboard::HostTree;
use outboard_error::{Error, ErrorKind, Result};
use outboard_volume::host_mounts;
use outboard_worker::{Launch, ProcessEnd, WorkerError};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// How long the host may take to hand over what it holds back.
const FLUSH: Duration = Duration::from_secs(30);
/// How long an unmounted file system may stay in use by somebody before its server ends.
const LEAVE: Duration = Duration::from_secs(2);
/// A server that lived shorter than this is not started again.
const WORTHWHILE: Duration = Duration::from_secs(10);

fn cannot_start(error: io::Error) -> Error {
    Error::failed("cannot start the server of the mount", &error)
}

/// This program again, in another role. No signal of the terminal goes to it.
fn program(plan: &Plan, role: &str) -> Result<Launch> {
    let launch = Launch::this_program().name("outboard");
    Ok(launch
        .arguments(plan.arguments(role)?)
        .stdin(Stdio::null())
        .own_group()
        .outlives())
}

/// Starts a keeper in the background, and waits until the file system can be used.
pub fn start(plan: &Plan) -> Result<()> {
    let launch = program(plan, "keeper")?.directory("/");
    keeper::start(launch, cannot_start)
}

fn reported(error: WorkerError) -> Error {
    keeper::reported(error, cannot_start)
}

enum Event {
    Signal,
    Ended(io::Result<ExitStatus>),
}

/// A server that answers requests.
struct Server {
    process: ServerProcess,
    since: Instant,
}

struct Keeper<'a> {
    plan: &'a Plan,
    voice: Voice,
    events: Receiver<Event>,
    sender: Sender<Event>,
}

pub fn run(plan: &Plan, background: bool) -> Result<()> {
    let (sender, events) = channel();
    let voice = Voice::new(background);
    let keeper = Keeper {
        plan,
        voice: voice.clone(),
        events,
        sender,
    };
    keeper.run().map_err(|error| voice.last(error))
}

impl Keeper<'_> {
    fn run(&self) -> Result<()> {
        let sender = self.sender.clone();
        keeper::catch_signals(move || sender.send(Event::Signal).is_ok())?;
        let mut server = self.mount()?;
        if !self.voice.ready() {
            // It was interrupted, and so is this.
            let _ = self.sender.send(Event::Signal);
        }
        loop {
            let lived = server.since;
            let end = self.serve(server);
            let crash = match end {
                Some(ProcessEnd::Exited(0)) => return Ok(()),
                // It has reported why.
                Some(ProcessEnd::Exited(_)) | None => return Err(Error::AlreadyReported),
                Some(ProcessEnd::Killed(signal)) => {
                    format!("its server was ended by signal {signal}")
                }
                Some(ProcessEnd::Panicked) => {
                    "its server ended, because its kernel panicked".to_owned()
                }
            };
            let shown = self.plan.directory.display();
            if !self.plan.restart || lived.elapsed() < WORTHWHILE {
                return Err(self.last(
                    end,
                    &format!(
                        "{shown}: {crash}: every access is an error until it is unmounted \
                         (outboard umount {shown})"
                    ),
                ));
            }
            self.voice.tell(&format!(
                "{shown}: {crash}: mounting it again; files that were open stay lost"
            ));
            host_mounts::unmount(&self.plan.directory, true)?;
            server = self.mount()?;
        }
    }

    /// The error of a keeper that gives up after a crash.
    fn last(&self, end: Option<ProcessEnd>, message: &str) -> Error {
        if end == Some(ProcessEnd::Panicked) {
            self.voice.tell(message);
            Error::Panicked
        } else {
            Error::known(ErrorKind::Crashed, message)
        }
    }

    /// Mounts, with a server that had all files open before. If that fails nothing stays mounted.
    fn mount(&self) -> Result<Server> {
        let plan = self.plan;
        let directory = &plan.directory;
        let mut server = self.start()?;
        await_step(&mut server, ServerStep::Prepared)?;
        let device = match host_mounts::mount(directory, &plan.source, plan.options.flags()) {
            Ok(device) => device,
            Err(error) => {
                let _ = server.end();
                return Err(error);
            }
        };
        let server = self.connect(server, device);
        match &server {
            Ok(_) => host_mounts::read_further_ahead(directory),
            Err(_) => {
                if let Err(error) = host_mounts::unmount(directory, true) {
                    self.voice.tell(error.message().unwrap_or_default());
                }
            }
        }
        server
    }

    fn start(&self) -> Result<ServerProcess> {
        let launch = program(self.plan, "server")?;
        let server = if self.voice.is_in_background() {
            let voice = self.voice.clone();
            let line = move |line: &[u8]| voice.line(&String::from_utf8_lossy(line));
            ServerProcess::program_with_lines(launch, LONGEST, line)
        } else {
            ServerProcess::program(launch, LONGEST)
        };
        server.map_err(cannot_start)
    }

    /// Gives a server the FUSE device, of which no copy stays here, and waits until it answers
    /// requests.
    fn connect(&self, mut server: ServerProcess, device: OwnedFd) -> Result<Server> {
        server.send_descriptor(device.as_fd());
        drop(device);
        await_step(&mut server, ServerStep::Serving)?;
        let sender = self.sender.clone();
        let watched = server.watch_end(move |status| {
            let _ = sender.send(Event::Ended(status));
        });
        watched.map_err(cannot_start)?;
        Ok(Server {
            process: server,
            since: Instant::now(),
        })
    }

    /// Waits until the server ends, by itself or because of a signal. Returns how it ended, if that
    /// is known.
    fn serve(&self, mut server: Server) -> Option<ProcessEnd> {
        let mut patience = None;
        loop {
            let event = match patience {
                None => self
                    .events
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected),
                Some(patience) => self.events.recv_timeout(patience),
            };
            match event {
                Ok(Event::Ended(status)) => {
                    server.process.end_lines();
                    return status.ok().map(ProcessEnd::from);
                }
                Ok(Event::Signal) if patience.is_none() => {
                    self.leave();
                    patience = Some(LEAVE);
                }
                // It is still used, or the user cannot wait.
                Ok(Event::Signal) | Err(RecvTimeoutError::Timeout) => {
                    server.process.end_requests();
                    patience = Some(FLUSH);
                }
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Has the host write what it holds back, and unmounts.
    fn leave(&self) {
        let directory = self.plan.directory.clone();
        let (done, waiting) = channel();
        thread::spawn(move || {
            let _ = done.send(flush(&directory));
        });
        let flushed = waiting.recv_timeout(FLUSH);
        let shown = self.plan.directory.display();
        if !matches!(flushed, Ok(Ok(()))) {
            self.voice
                .tell(&format!("{shown}: not everything was written"));
        }
        if let Err(error) = host_mounts::unmount(&self.plan.directory, true) {
            self.voice.tell(error.message().unwrap_or_default());
        }
    }
}

fn flush(directory: &Path) -> io::Result<()> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let root = HostTree.open_fd(directory, flags, 0)?;
    root.sync_file_system()?;
    root.sync()
}

/// Waits until the server has done its next step. The error: it ended instead, and has reported
/// why.
fn await_step(server: &mut ServerProcess, wanted: ServerStep) -> Result<()> {
    match server.receive(None).map_err(reported)? {
        step if step == wanted => Ok(()),
        _ => Err(Error::Failed(
            "the server of the mount broke the protocol".to_owned(),
        )),
    }
}
