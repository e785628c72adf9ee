// SPDX-License-Identifier: GPL-2.0-only
//! The keeper: mounts, starts the server, and unmounts when it is asked to end.
//!
//! In the background it tells the command that started it, over its standard output, what went
//! wrong, or with a NUL that all is well, which the command answers with a byte. After that nobody
//! listens there, and it tells the system's log.

use super::plan::Plan;
use outboard::{send_fd, signals, HostTree};
use outboard_error::{warn, Error, ErrorKind, Result};
use outboard_sandbox::crash;
use outboard_sandbox::interrupt::ending_signals;
use outboard_volume::host_mounts;
use signal_hook::consts::SIGINT;
use signal_hook::low_level::pipe;
use std::fmt::{Display, Formatter};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long the host may take to hand over what it holds back.
const FLUSH: Duration = Duration::from_secs(30);
/// How long an unmounted file system may stay in use by somebody before its server ends.
const LEAVE: Duration = Duration::from_secs(2);
/// A server that lived shorter than this is not started again.
const WORTHWHILE: Duration = Duration::from_secs(10);
/// Severity "error" of a daemon, in the form of syslog(3).
const PRIORITY: &str = "<27>";

fn cannot_start(error: io::Error) -> Error {
    Error::failed("cannot start the server of the mount", &error)
}

/// This program again, in another role.
fn program(plan: &Plan, role: &str) -> Result<Command> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("outboard").args(plan.arguments(role)?);
    // No signal of the terminal goes to it.
    command.process_group(0);
    Ok(command)
}

/// Starts a keeper in the background, and waits until the file system can be used.
pub fn start(plan: &Plan) -> Result<()> {
    let (mut ours, theirs) = UnixStream::pair().map_err(cannot_start)?;
    let second = theirs.try_clone().map_err(cannot_start)?;
    let mut keeper = program(plan, "keeper")?
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::from(OwnedFd::from(theirs)))
        .stderr(Stdio::from(OwnedFd::from(second)))
        .spawn()
        .map_err(cannot_start)?;
    let mut buffer = [0; 4096];
    loop {
        let length = ours.read(&mut buffer).map_err(cannot_start)?;
        if length == 0 {
            return Err(told(keeper.wait()));
        }
        let end = buffer[..length].iter().position(|byte| *byte == 0);
        // There is nobody to tell of an error here.
        let _ = io::stderr().write_all(&buffer[..end.unwrap_or(length)]);
        if end.is_some() {
            return ours.write_all(b"+").map_err(cannot_start);
        }
    }
}

/// The error of a command whose server or keeper has ended, and has said why.
fn told(status: io::Result<ExitStatus>) -> Error {
    match outcome(status) {
        Outcome::Crashed(Crash::Panic) => Error::Panicked,
        _ => Error::AlreadyReported,
    }
}

/// Where messages go.
#[derive(Clone)]
struct Voice {
    background: bool,
    /// The command that waited has ended.
    alone: Arc<AtomicBool>,
}

impl Voice {
    fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed)
    }

    /// A line that is fit for a terminal.
    fn line(&self, line: &str) {
        if !self.is_alone() {
            let _ = writeln!(io::stderr(), "{line}");
            return;
        }
        // Without a system log there is nobody to tell.
        let _ = UnixDatagram::unbound()
            .and_then(|log| log.send_to(format!("{PRIORITY}{line}").as_bytes(), "/dev/log"));
    }

    fn tell(&self, message: &str) {
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
    fn ready(&self) -> bool {
        if !self.background {
            return true;
        }
        let heard = io::stdout()
            .as_fd()
            .try_clone_to_owned()
            .and_then(|socket| {
                let mut command = UnixStream::from(socket);
                command.write_all(b"\0")?;
                command.read_exact(&mut [0])
            });
        self.alone.store(true, Ordering::Relaxed);
        heard.is_ok()
    }

    /// An error as it leaves this process: told already if nobody reads it otherwise.
    fn last(&self, error: Error) -> Error {
        match error.message() {
            Some(message) if self.is_alone() => {
                self.tell(message);
                Error::AlreadyReported
            }
            _ => error,
        }
    }

    /// Passes on what the server says, until it ends.
    fn relay(&self, from: ChildStderr) {
        for line in BufReader::new(from).split(b'\n').map_while(io::Result::ok) {
            self.line(&String::from_utf8_lossy(&line));
        }
    }
}

enum Event {
    Signal,
    Ended(io::Result<ExitStatus>),
}

/// A server that answers requests.
struct Server {
    /// Its end says that the server shall stop.
    control: UnixStream,
    since: Instant,
}

/// A server that does not answer requests yet.
struct Newborn {
    child: Child,
    control: UnixStream,
    /// Passes on what it says.
    relay: Option<thread::JoinHandle<()>>,
}

impl Newborn {
    /// Waits until it has done its next step. The error: it ended instead, and has said why.
    fn hear(&mut self) -> Result<()> {
        match self.control.read(&mut [0]) {
            Ok(1) => Ok(()),
            _ => Err(told(self.give_up())),
        }
    }

    /// Waits for its end, which comes when nobody needs it.
    fn give_up(&mut self) -> io::Result<ExitStatus> {
        let _ = self.control.shutdown(Shutdown::Both);
        let status = self.child.wait();
        if let Some(relay) = self.relay.take() {
            let _ = relay.join();
        }
        status
    }
}

/// How a server ended.
enum Outcome {
    Finished,
    /// It said why.
    Failed,
    Crashed(Crash),
}

/// How a server crashed.
#[derive(Clone, Copy)]
enum Crash {
    Signal(i32),
    /// Its kernel panicked, and it has reported that.
    Panic,
}

impl Display for Crash {
    fn fmt(&self, formatter: &mut Formatter) -> std::fmt::Result {
        match self {
            Crash::Signal(number) => write!(formatter, "its server was ended by signal {number}"),
            Crash::Panic => write!(formatter, "its server ended, because its kernel panicked"),
        }
    }
}

struct Keeper<'a> {
    plan: &'a Plan,
    voice: Voice,
    events: Receiver<Event>,
    sender: Sender<Event>,
}

pub fn run(plan: &Plan, background: bool) -> Result<()> {
    let (sender, events) = channel();
    let voice = Voice {
        background,
        alone: Arc::default(),
    };
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
        self.catch_signals()
            .map_err(|error| Error::failed("cannot catch signals", &error))?;
        let mut server = self.mount()?;
        if !self.voice.ready() {
            // It was interrupted, and so is this.
            let _ = self.sender.send(Event::Signal);
        }
        loop {
            let lived = server.since;
            let crash = match self.serve(server) {
                Outcome::Finished => return Ok(()),
                Outcome::Failed => return Err(Error::AlreadyReported),
                Outcome::Crashed(crash) => crash,
            };
            let shown = self.plan.directory.display();
            if !self.plan.restart || lived.elapsed() < WORTHWHILE {
                return Err(self.last(
                    crash,
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
    fn last(&self, crash: Crash, message: &str) -> Error {
        match crash {
            Crash::Signal(_) => Error::known(ErrorKind::Crashed, message),
            Crash::Panic => {
                self.voice.tell(message);
                Error::Panicked
            }
        }
    }

    fn catch_signals(&self) -> io::Result<()> {
        let (mut ours, theirs) = UnixStream::pair()?;
        signals::release()?;
        for signal in ending_signals().into_iter().chain([SIGINT]) {
            pipe::register(signal, theirs.try_clone()?)?;
        }
        let sender = self.sender.clone();
        thread::Builder::new().spawn(move || {
            let mut byte = [0];
            while matches!(ours.read(&mut byte), Ok(1)) && sender.send(Event::Signal).is_ok() {}
        })?;
        Ok(())
    }

    /// Mounts, with a server that had all files open before. If that fails nothing stays mounted.
    fn mount(&self) -> Result<Server> {
        let plan = self.plan;
        let directory = &plan.directory;
        let mut newborn = self.start()?;
        newborn.hear()?;
        let device = match host_mounts::mount(directory, &plan.source, plan.options.flags()) {
            Ok(device) => device,
            Err(error) => {
                let _ = newborn.give_up();
                return Err(error);
            }
        };
        let server = self.connect(newborn, device);
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

    fn start(&self) -> Result<Newborn> {
        let (control, theirs) = UnixStream::pair().map_err(cannot_start)?;
        let mut command = program(self.plan, "server")?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::from(OwnedFd::from(theirs)));
        if self.voice.background {
            command.stderr(Stdio::piped());
        }
        let mut child = command.spawn().map_err(cannot_start)?;
        // It holds our copies of what only the server may have.
        drop(command);
        let relay = child.stderr.take().map(|from| {
            let voice = self.voice.clone();
            thread::spawn(move || voice.relay(from))
        });
        Ok(Newborn {
            child,
            control,
            relay,
        })
    }

    /// Gives a server the FUSE device, of which no copy stays here, and waits until it answers
    /// requests.
    fn connect(&self, mut newborn: Newborn, device: OwnedFd) -> Result<Server> {
        // The next read notices a server that is not there to take the device.
        let _ = send_fd(&newborn.control, device.as_fd());
        drop(device);
        newborn.hear()?;
        self.wait_for(newborn.child)?;
        Ok(Server {
            control: newborn.control,
            since: Instant::now(),
        })
    }

    fn wait_for(&self, mut child: Child) -> Result<()> {
        let sender = self.sender.clone();
        thread::Builder::new()
            .spawn(move || {
                let _ = sender.send(Event::Ended(child.wait()));
            })
            .map_err(cannot_start)?;
        Ok(())
    }

    /// Waits until the server ends, by itself or because of a signal.
    fn serve(&self, server: Server) -> Outcome {
        let mut control = Some(server.control);
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
                Ok(Event::Ended(status)) => return outcome(status),
                Ok(Event::Signal) if patience.is_none() => {
                    self.leave();
                    patience = Some(LEAVE);
                }
                // It is still used, or the user cannot wait.
                Ok(Event::Signal) | Err(RecvTimeoutError::Timeout) => {
                    drop(control.take());
                    patience = Some(FLUSH);
                }
                Err(RecvTimeoutError::Disconnected) => return Outcome::Failed,
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

fn outcome(status: io::Result<ExitStatus>) -> Outcome {
    match status {
        Ok(status) if status.success() => Outcome::Finished,
        Ok(status) if status.code() == Some(crash::CODE.into()) => Outcome::Crashed(Crash::Panic),
        Ok(status) => status.signal().map_or(Outcome::Failed, |number| {
            Outcome::Crashed(Crash::Signal(number))
        }),
        Err(_) => Outcome::Failed,
    }
}
