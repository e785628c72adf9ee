// SPDX-License-Identifier: GPL-2.0-only
//! The server of a run in the background: other commands reach it by its control socket.
//!
//! | thread | does |
//! |---|---|
//! | of the socket | accepts connections, until the process ends |
//! | of a connection | serves one request ([`Request`]) |
//!
//! A command that stops reading holds up its own program, and nothing else.

use super::children::Children;
use super::command::FAILED;
use super::connection::{ClientConnection, InputEnd};
use super::outside::OutsideTerminal;
use super::start::ProgramRun;
use super::streams::{Streams, Terminal};
use crate::control_socket::ControlSocket;
use outboard::{System, WindowSize};
use outboard_error::Error;
use outboard_protocol::frames::{
    Frame, FrameKind, Note, ProgramRequest, Request, RunAnswer, TerminalRequest,
};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Most commands at a time.
const MOST_CONNECTIONS: usize = 64;
/// How long a run that has ended waits for commands that read what is left.
const PARTING: Duration = Duration::from_secs(2);
/// After an error.
const PAUSE: Duration = Duration::from_millis(100);
/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(10);

/// What the run and its commands share.
pub(super) struct ControlServer {
    run: Arc<ProgramRun>,
    children: Children,
    /// The first program.
    first: i32,
    end: Mutex<Option<ExitStatus>>,
    ended: Condvar,
    connections: AtomicUsize,
}

/// The first program runs, and commands are served.
pub(super) struct Served {
    server: Arc<ControlServer>,
    record: File,
}

/// Serves commands from now on: the first program runs.
pub(super) fn serve(
    socket: ControlSocket,
    run: &Arc<ProgramRun>,
    children: Children,
    first: i32,
) -> io::Result<Served> {
    let server = Arc::new(ControlServer {
        run: Arc::clone(run),
        children,
        first,
        end: Mutex::default(),
        ended: Condvar::new(),
        connections: AtomicUsize::new(0),
    });
    // It may have gone.
    let _ = Frame::send(&mut &socket.starter, &RunAnswer::Started);
    let shared = Arc::clone(&server);
    let accept_all = move || loop {
        match ControlSocket::accept() {
            Ok(client) => shared.accept(client),
            // There are too many files, which others close.
            Err(_) => thread::sleep(PAUSE),
        }
    };
    thread::Builder::new()
        .name("control".to_owned())
        .spawn(accept_all)?;
    Ok(Served {
        server,
        record: socket.record,
    })
}

impl Served {
    /// Whether a command uses the run.
    pub(super) fn is_used(&self) -> bool {
        self.server.connections.load(Ordering::Relaxed) > 0
    }

    /// The first program has ended.
    pub(super) fn first_ended(&self, status: ExitStatus) {
        let end = &self.server.end;
        *end.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
        self.server.ended.notify_all();
    }

    /// All programs have ended. Lets commands read the rest, and records the end. Blocks, but not
    /// for long.
    pub(super) fn finish(mut self, status: ExitStatus) {
        let begin = Instant::now();
        while self.is_used() && begin.elapsed() < PARTING {
            thread::sleep(INTERVAL);
        }
        let signal = || 128 + status.signal().unwrap_or_default();
        let code = status.code().unwrap_or_else(signal);
        // Without room, the end is not known later: the same as after SIGKILL.
        let _ = self.record.rewind();
        let _ = self.record.write_all(format!("{code}\n").as_bytes());
    }
}

impl ControlServer {
    fn accept(self: &Arc<Self>, socket: UnixStream) {
        if self.connections.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            let reason = format!("{MOST_CONNECTIONS} commands use this run already");
            let _ = Frame::send(&mut &socket, &failed(reason));
            return;
        }
        let server = Arc::clone(self);
        let serve = move || {
            // Nobody is left to tell.
            let _ = server.serve(&socket);
            server.connections.fetch_sub(1, Ordering::Relaxed);
        };
        let started = thread::Builder::new()
            .name("connection".to_owned())
            .spawn(serve);
        if started.is_err() {
            self.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn serve(&self, socket: &UnixStream) -> io::Result<()> {
        let Some(frame) = Frame::read(&mut &*socket)? else {
            return Ok(());
        };
        match frame.message() {
            Ok(Request::Start) => Frame::send(&mut &*socket, &RunAnswer::Started),
            Ok(Request::Run(request)) => self.run_program(socket, request),
            Ok(Request::Stop {
                signal,
                milliseconds,
            }) => {
                let status = self.stop(signal, Duration::from_millis(milliseconds));
                Frame::send(&mut &*socket, &RunAnswer::Ended(status.into_raw()))
            }
            Ok(Request::Client(_)) => {
                let reason = "a run in the background takes no clients";
                Frame::send(&mut &*socket, &failed(reason.to_owned()))
            }
            Err(error) => Frame::send(&mut &*socket, &failed(error.to_string())),
        }
    }

    /// Ends the first program. Blocks until then.
    fn stop(&self, signal: Option<i32>, patience: Duration) -> ExitStatus {
        let system = self.run.kernel.system();
        let _ = system.send_signal(
            -self.first,
            signal.unwrap_or(self.run.command.signal(libc::SIGTERM)),
        );
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let running = |end: &mut Option<ExitStatus>| end.is_none();
        let waited = self.ended.wait_timeout_while(end, patience, running);
        let (mut end, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if end.is_none() {
            let _ = system.send_signal(-self.first, libc::SIGKILL);
        }
        loop {
            if let Some(status) = *end {
                return status;
            }
            end = self.ended.wait(end).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run_program(&self, socket: &UnixStream, request: ProgramRequest) -> io::Result<()> {
        let connection = ClientConnection::new(socket)?;
        let mut program = match self.start(&connection, request) {
            Ok(program) => program,
            Err((error, code)) => {
                let reason = error.message().unwrap_or_default().to_owned();
                return connection.send(&RunAnswer::Failed { reason, code });
            }
        };
        let system = self.run.kernel.system();
        while let Some(frame) = Frame::read(&mut &*socket).ok().flatten() {
            match (frame.kind, frame.message()) {
                (FrameKind::Input, _) => program.input.pass(frame.bytes),
                (_, Ok(Note::Signal(signal))) => program.signal(system, signal),
                (_, Ok(Note::Size(rows, columns))) => program.set_size((rows, columns)),
                (_, Err(_)) => break,
            }
        }
        // The command has gone.
        program.signal(system, libc::SIGHUP);
        program.signal(system, libc::SIGCONT);
        Ok(())
    }

    /// Starts a further program. The error comes with its exit code.
    fn start(
        &self,
        connection: &ClientConnection,
        request: ProgramRequest,
    ) -> Result<ConnectedProgram, (Error, u8)> {
        let has_error_apart = request.has_error_apart();
        let terminal = request.terminal.map(of_request);
        let command = self.run.command.further(request);
        let started = || {
            let root = self.run.root();
            let root = root
                .as_ref()
                .ok_or_else(|| Error::failed("cannot run it", &ended()))?;
            let failed = |error| Error::failed("cannot make the program's streams", &error);
            let kernel = &self.run.kernel;
            let streams = Streams::new(kernel, root, terminal.as_ref(), has_error_apart);
            let streams = streams.map_err(failed)?;
            let start = || self.run.start(&command, root, streams.files());
            let (program, end) = self.children.start(start)?;
            let _ = connection.send(&RunAnswer::Started);
            let (input, outside) = connection.streams();
            let number = program.number();
            let streams = streams.start(self.run.kernel.system(), number, outside);
            let streams = streams.map_err(failed)?;
            let program = ConnectedProgram {
                number,
                input,
                terminal: streams.terminal(),
                has_ended: Arc::default(),
            };
            let (connection, has_ended) = (connection.clone(), Arc::clone(&program.has_ended));
            let wait = move || {
                let status = end.recv().unwrap_or_default();
                has_ended.store(true, Ordering::Relaxed);
                let _ = streams.finish();
                let _ = connection.send(&RunAnswer::Ended(status.into_raw()));
            };
            let waiting = thread::Builder::new().name("end".to_owned()).spawn(wait);
            waiting.map_err(failed)?;
            Ok(program)
        };
        started().map_err(|error| {
            let code = command.failure_code(&error);
            (error, code)
        })
    }
}

/// A further program, and what its command changes while it runs.
struct ConnectedProgram {
    number: i32,
    input: InputEnd,
    terminal: Option<Arc<Terminal>>,
    has_ended: Arc<AtomicBool>,
}

impl ConnectedProgram {
    /// Sends a signal to the program and its group, unless it has ended.
    fn signal(&self, system: &System, signal: i32) {
        if !self.has_ended.load(Ordering::Relaxed) {
            let _ = system.send_signal(-self.number, signal);
        }
    }

    fn set_size(&self, rows_and_columns: (u16, u16)) {
        if let Some(terminal) = &self.terminal {
            terminal.set_size(Some(window(rows_and_columns)));
        }
    }
}

fn ended() -> io::Error {
    io::Error::other("the run ends")
}

fn window((rows, columns): (u16, u16)) -> WindowSize {
    WindowSize {
        rows,
        columns,
        ..WindowSize::default()
    }
}

fn of_request(request: TerminalRequest) -> OutsideTerminal {
    OutsideTerminal {
        is_shown: request.is_shown,
        settings: None,
        size: request.size.map(window),
    }
}

fn failed(reason: String) -> RunAnswer {
    RunAnswer::Failed {
        reason,
        code: FAILED,
    }
}
