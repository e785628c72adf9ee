// SPDX-License-Identifier: GPL-2.0-only
//! A program that a connection has asked for, and whose streams are that connection's frames.

use super::children::Children;
use super::command::ProgramCommand;
use super::connection::{ClientConnection, InputEnd};
use super::outside::OutsideTerminal;
use super::start::ProgramRun;
use super::streams::{Streams, Terminal};
use outboard::{System, WindowSize};
use outboard_error::{Error, Result};
use outboard_protocol::frames::{Frame, FrameKind, Note, RunAnswer, TerminalRequest};
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, OnceLock};
use std::thread;

/// A program to start.
pub(super) struct ProgramStart<'a> {
    pub(super) run: &'a ProgramRun,
    pub(super) children: &'a Children,
    pub(super) command: ProgramCommand,
    /// It gets a terminal.
    pub(super) terminal: Option<TerminalRequest>,
    pub(super) has_error_apart: bool,
}

/// A further program, and what its command changes while it runs.
struct ConnectedProgram {
    number: i32,
    input: InputEnd,
    terminal: Option<Arc<Terminal>>,
    /// How it has ended.
    end: Arc<OnceLock<ExitStatus>>,
}

impl ProgramStart<'_> {
    /// Runs the program until the connection ends. `began` gets the numbers of its process and of
    /// its user. Its result is dropped when the program has ended.
    pub(super) fn serve<T: Send + 'static>(
        &self,
        socket: &UnixStream,
        began: impl FnOnce(i32, u32) -> T,
    ) -> io::Result<()> {
        let connection = ClientConnection::new(socket)?;
        let mut program = match self.start(&connection, began) {
            Ok(program) => program,
            Err(error) => {
                let code = self.command.failure_code(&error);
                let reason = error.message().unwrap_or_default().to_owned();
                return connection.send(&RunAnswer::Failed { reason, code });
            }
        };
        let system = self.run.kernel.system();
        while let Some(frame) = Frame::read(&mut &*socket).ok().flatten() {
            match (frame.kind, frame.message()) {
                (FrameKind::Input, _) => program.input.pass(frame.bytes),
                (_, Ok(Note::Signal(signal))) => {
                    if let Some(status) = program.end.get() {
                        // Others hold its outputs, and the command does not want to wait for them.
                        let _ = connection.send(&RunAnswer::Ended(status.into_raw()));
                        break;
                    }
                    program.signal(system, signal);
                }
                (_, Ok(Note::Size(rows, columns))) => program.set_size((rows, columns)),
                (_, Err(_)) => break,
            }
        }
        // The command has gone.
        program.signal(system, libc::SIGHUP);
        program.signal(system, libc::SIGCONT);
        Ok(())
    }

    fn start<T: Send + 'static>(
        &self,
        connection: &ClientConnection,
        began: impl FnOnce(i32, u32) -> T,
    ) -> Result<ConnectedProgram> {
        let failed = |error| Error::failed("cannot make the program's streams", &error);
        let run = self.run;
        let root = run.root();
        let root = run.present(&root)?;
        let terminal = self.terminal.map(of_request);
        let streams = Streams::new(&run.kernel, root, terminal.as_ref(), self.has_error_apart);
        let streams = streams.map_err(failed)?;
        let login = run.login(&self.command, root)?;
        let start = || run.start(&self.command, &login, root, streams.files());
        let (program, end) = self.children.start(start)?;
        let number = program.number();
        let guard = began(number, login.user.user);
        let _ = connection.send(&RunAnswer::Started);
        let (input, outside) = connection.streams();
        let streams = streams.start(run.kernel.system(), number, outside);
        let streams = streams.map_err(failed)?;
        let program = ConnectedProgram {
            number,
            input,
            terminal: streams.terminal(),
            end: Arc::default(),
        };
        let (connection, known) = (connection.clone(), Arc::clone(&program.end));
        let wait = move || {
            let status = end.recv().unwrap_or_default();
            let _ = known.set(status);
            drop(guard);
            let _ = streams.finish();
            let _ = connection.send(&RunAnswer::Ended(status.into_raw()));
        };
        let waiting = thread::Builder::new().name("end".to_owned()).spawn(wait);
        waiting.map_err(failed)?;
        Ok(program)
    }
}

impl ConnectedProgram {
    /// Sends a signal to the program and its group, unless it has ended.
    fn signal(&self, system: &System, signal: i32) {
        if self.end.get().is_none() {
            let _ = system.send_signal(-self.number, signal);
        }
    }

    fn set_size(&self, rows_and_columns: (u16, u16)) {
        if let Some(terminal) = &self.terminal {
            terminal.set_size(Some(window(rows_and_columns)));
        }
    }
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
