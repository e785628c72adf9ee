// SPDX-License-Identifier: GPL-2.0-only
//! The keeper of a server: makes its sockets, starts it, and ends it when a signal asks for that.
//! It removes the sockets' files, which the server in its sandbox cannot.

use super::url::ServerUrl;
use crate::commands::background::start::own_words;
use crate::commands::keeper::{self, Voice, LONGEST};
use crate::commands::socket_activation;
use outboard::Inherited;
use outboard_error::{Error, ErrorKind, Result};
use outboard_server::BoundSocket;
use outboard_volume::options::Options;
use outboard_volume::server_ends::{GivenSockets, KernelServerProcess};
use outboard_worker::{Launch, ProcessEnd, WorkerError};
use sd_notify::NotifyState;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread;

/// A server to keep.
pub struct KeptServer {
    /// The addresses.
    pub urls: Vec<ServerUrl>,
    /// All users of the host may connect.
    pub is_shared: bool,
    /// A command waits until connections are served.
    pub is_in_background: bool,
}

enum Event {
    Signal,
    Ended(io::Result<ExitStatus>),
}

fn cannot_start(error: io::Error) -> Error {
    Error::failed("cannot start the server", &error)
}

fn reported(error: WorkerError) -> Error {
    keeper::reported(error, cannot_start)
}

/// This program again, in another role.
fn program(role: &str) -> Launch {
    Launch::this_program()
        .name("outboard")
        .arguments(own_words(&["--role", role]))
        .outlives()
}

/// Starts a keeper in the background, and waits until connections are served.
pub fn start() -> Result<()> {
    if !socket_activation::numbers()?.is_empty() {
        return Err(Error::Usage(
            "systemd passes sockets to a server in the foreground: leave out --daemon".to_owned(),
        ));
    }
    // No signal of the terminal goes to it.
    let launch = program("keeper").stdin(Stdio::null()).own_group();
    keeper::start(launch, cannot_start)
}

/// The sockets of a server.
struct Sockets {
    made: Vec<BoundSocket>,
    /// Of systemd, in the place of ports.
    passed: Vec<OwnedFd>,
}

/// Keeps a server until it has ended.
pub fn run(server: &KeptServer, settings: &mut Options) -> Result<()> {
    let voice = Voice::new(server.is_in_background);
    let done = keep(server, settings, &voice);
    done.map_err(|error| voice.last(error))
}

fn keep(kept: &KeptServer, settings: &mut Options, voice: &Voice) -> Result<()> {
    let sockets = Sockets::make(kept, &mut settings.inherited)?;
    let (sender, events) = channel();
    let signals = sender.clone();
    keeper::catch_signals(move || signals.send(Event::Signal).is_ok())?;
    let mut server = start_server(voice)?;
    let parting = sockets.give(&mut server)?;
    let part = thread::Builder::new().spawn(move || sockets.part(parting));
    let part = part.map_err(cannot_start)?;
    let done = await_end(&mut server, voice, sender, &events);
    // The server has closed its end.
    let _ = part.join();
    done
}

/// Waits until the server serves, and then for its end.
fn await_end(
    server: &mut KernelServerProcess,
    voice: &Voice,
    sender: Sender<Event>,
    events: &Receiver<Event>,
) -> Result<()> {
    server.receive(None).map_err(reported)?;
    let ended = sender.clone();
    let watched = server.watch_end(move |status| {
        let _ = ended.send(Event::Ended(status));
    });
    watched.map_err(cannot_start)?;
    // Nobody may be there to hear it.
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    if !voice.ready() {
        // The command was interrupted, and so is this.
        let _ = sender.send(Event::Signal);
    }
    attend(server, events)
}

fn start_server(voice: &Voice) -> Result<KernelServerProcess> {
    let launch = program("server");
    let server = if voice.is_in_background() {
        let voice = voice.clone();
        let line = move |line: &[u8]| voice.line(&String::from_utf8_lossy(line));
        KernelServerProcess::program_with_lines(launch, LONGEST, line)
    } else {
        KernelServerProcess::program(launch, LONGEST)
    };
    server.map_err(cannot_start)
}

/// Waits for the end of the server, by itself or because of a signal.
fn attend(server: &mut KernelServerProcess, events: &Receiver<Event>) -> Result<()> {
    loop {
        match events.recv() {
            Ok(Event::Signal) => {
                let _ = sd_notify::notify(&[NotifyState::Stopping]);
                server.end_requests();
            }
            Ok(Event::Ended(status)) => {
                server.end_lines();
                return ended(status.map_err(cannot_start)?.into());
            }
            Err(_) => return Err(Error::AlreadyReported),
        }
    }
}

fn ended(end: ProcessEnd) -> Result<()> {
    match end {
        ProcessEnd::Exited(0) => Ok(()),
        // It has reported why.
        ProcessEnd::Exited(_) => Err(Error::AlreadyReported),
        ProcessEnd::Panicked => Err(Error::Panicked),
        ProcessEnd::Killed(signal) => Err(Error::known(
            ErrorKind::Crashed,
            format!("the server was ended by signal {signal}: images are as after a power cut"),
        )),
    }
}

impl Sockets {
    /// Makes all, except those that systemd has passed.
    fn make(kept: &KeptServer, inherited: &mut Inherited) -> Result<Self> {
        let mut given = Vec::new();
        let mut passed = Vec::new();
        for number in socket_activation::numbers()? {
            match inherited.take_unix_listener(number) {
                Some(listener) => given.push(listener),
                None => passed.push(socket_activation::take_tcp(number, inherited)?.socket),
            }
        }
        let made: Result<Vec<BoundSocket>> = kept
            .urls
            .iter()
            .map(|url| match take_at(&mut given, url) {
                Some(listener) => Ok(BoundSocket::passed(listener)),
                None => listen(url, kept.is_shared),
            })
            .collect();
        match given.first() {
            Some(other) => Err(leads_nowhere(other)),
            None => Ok(Self {
                made: made?,
                passed,
            }),
        }
    }

    /// Gives them to the server. Returns the keeper's end of the parting socket.
    fn give(&self, server: &mut KernelServerProcess) -> Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair().map_err(cannot_start)?;
        let count = GivenSockets {
            listeners: self.made.len(),
            passed: self.passed.len(),
        };
        server.send(&count, None).map_err(reported)?;
        server.send_descriptor(theirs.as_fd());
        let listeners = self.made.iter().map(|made| made.listener.as_fd());
        let passed = self.passed.iter().map(AsFd::as_fd);
        listeners
            .chain(passed)
            .for_each(|socket| server.send_descriptor(socket));
        Ok(ours)
    }

    /// Waits until the server needs none of them any more, removes files, and says so.
    fn part(self, mut parting: UnixStream) {
        let _ = parting.read(&mut [0]);
        drop(self);
    }
}

fn listen(url: &ServerUrl, is_shared: bool) -> Result<BoundSocket> {
    let what = format!("cannot listen at {url}");
    BoundSocket::listen(url, is_shared).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Error::known(ErrorKind::InUse, format!("{what}: {error}")),
        _ => Error::failed(what, &error),
    })
}

fn path_of(listener: &UnixListener) -> Option<PathBuf> {
    let address = listener.local_addr().ok()?;
    address.as_pathname().map(Path::to_owned)
}

/// Takes the socket of systemd that listens at this address.
fn take_at(given: &mut Vec<UnixListener>, url: &ServerUrl) -> Option<UnixListener> {
    let ServerUrl::Unix(path) = url else {
        return None;
    };
    let is_there = |listener: &UnixListener| path_of(listener).as_ref() == Some(path);
    let at = given.iter().position(is_there)?;
    Some(given.swap_remove(at))
}

fn leads_nowhere(listener: &UnixListener) -> Error {
    let path = path_of(listener).unwrap_or_default();
    let path = path.display();
    Error::Usage(format!(
        "the socket {path} that systemd passes leads nowhere: add unix:{path}"
    ))
}
