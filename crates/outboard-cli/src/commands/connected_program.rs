// SPDX-License-Identifier: GPL-2.0-only
//! A program in another process's kernel: its streams are those of this command, in frames over a
//! connection.
//!
//! | thread | does |
//! |---|---|
//! | of the input | sends standard input, a frame at a time |
//! | of the frames | receives |
//! | the caller | writes output, passes signals and sizes on, and waits for the end |

use super::program_options::ProgramOptions;
use crate::exit_code::{set_failure_code, CommandStatus};
use outboard::{signals, Cancel, Fd, RawTerminal};
use outboard_error::{Error, Result};
use outboard_protocol::frames::{
    Frame, FrameKind, Note, ProgramRequest, Request, RunAnswer, TerminalRequest,
};
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::stream_output::{outputs_are_one, StreamOutput};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::mpsc::{channel, sync_channel, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Until a signal is passed on, and a window has its new size.
const PATIENCE: Duration = Duration::from_millis(20);
/// Bytes of input in a frame.
const PIECE: usize = 64 << 10;
/// Frames that wait for their output.
const WAITING: usize = 4;

/// The connection, for two threads that send.
type Sending = Arc<Mutex<UnixStream>>;

/// The error of a connection that ended too early.
pub fn lost(error: &io::Error) -> Error {
    Error::failed("the connection to the kernel is lost", error)
}

/// Sends a request, and returns the first answer.
pub fn ask(mut socket: &UnixStream, request: &Request) -> Result<RunAnswer> {
    // The other end may refuse a connection before it has read the request.
    let sent = Frame::send(&mut socket, request);
    let answer = next_answer(socket);
    answer.map_err(|error| lost(&sent.err().unwrap_or(error)))
}

/// The next answer.
pub fn next_answer(mut socket: &UnixStream) -> io::Result<RunAnswer> {
    let frame = Frame::read(&mut socket)?;
    frame.ok_or(io::ErrorKind::UnexpectedEof)?.message()
}

/// The error that an answer is, which is not the wanted one.
pub fn refusal(answer: RunAnswer) -> Error {
    match answer {
        RunAnswer::Failed { reason, .. } => Error::Failed(reason),
        _ => lost(&io::ErrorKind::InvalidData.into()),
    }
}

/// Runs a program until it ends. The caller's terminal is the program's.
pub fn run(
    socket: UnixStream,
    how: &ProgramOptions,
    program: &[OsString],
) -> Result<CommandStatus> {
    let interrupt = Interrupt::poll();
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let request = request(how, program, is_terminal);
    match ask(&socket, &Request::Run(request))? {
        RunAnswer::Started => {}
        answer => {
            if let RunAnswer::Failed { code, .. } = answer {
                set_failure_code(code);
            }
            return Err(refusal(answer));
        }
    }
    let _raw = is_terminal.then(RawTerminal::new).transpose();
    let sending = Arc::new(Mutex::new(
        socket.try_clone().map_err(|error| lost(&error))?,
    ));
    let (taken, may_send) = channel();
    send_input(&sending, may_send).map_err(|error| lost(&error))?;
    let (arrived, frames) = sync_channel(WAITING);
    receive(socket, arrived).map_err(|error| lost(&error))?;
    let mut client = Client {
        sending,
        taken,
        interrupt,
        given_up: Cancel::new(),
        size: is_terminal.then(|| size().unwrap_or_default()),
        is_ending: false,
    };
    client.attend(&frames)
}

fn request(how: &ProgramOptions, program: &[OsString], is_terminal: bool) -> ProgramRequest {
    let term = || Some(("TERM".into(), std::env::var_os("TERM")?));
    let variables = how.variables();
    let terminal = TerminalRequest {
        is_shown: is_terminal,
        has_error_apart: is_terminal && !io::stderr().is_terminal(),
        size: if is_terminal { size() } else { None },
    };
    ProgramRequest {
        words: program.to_vec(),
        environment: term().into_iter().chain(variables).collect(),
        directory: how.workdir.clone(),
        user: how.user.clone(),
        terminal: (is_terminal || how.tty).then_some(terminal),
        has_one_output: outputs_are_one().unwrap_or(false),
    }
}

/// Rows and columns of the terminal.
fn size() -> Option<(u16, u16)> {
    let size = Fd::standard(0).and_then(|own| own.window_size()).ok()?;
    Some((size.rows, size.columns))
}

fn locked(sending: &Sending) -> std::sync::MutexGuard<'_, UnixStream> {
    sending.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends standard input from now on. Nobody waits for the thread: it may be blocked until this
/// process ends.
fn send_input(sending: &Sending, may_send: Receiver<()>) -> io::Result<()> {
    let (from, sending) = (Fd::standard(0)?, Arc::clone(sending));
    let send = move || {
        let mut buffer = vec![0; PIECE];
        loop {
            let length = from.read(&mut buffer).unwrap_or(0);
            let sent = Frame::write(&mut *locked(&sending), FrameKind::Input, &buffer[..length]);
            if length == 0 || sent.is_err() || may_send.recv().is_err() {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("input".to_owned())
        .spawn(send)
        .map(drop)
}

/// Receives from now on, until the connection ends.
fn receive(mut socket: UnixStream, arrived: SyncSender<io::Result<Frame>>) -> io::Result<()> {
    let receive = move || loop {
        let frame = match Frame::read(&mut socket) {
            Ok(Some(frame)) => Ok(frame),
            Ok(None) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => Err(error),
        };
        let is_last = frame.is_err();
        if arrived.send(frame).is_err() || is_last {
            return;
        }
    };
    thread::Builder::new()
        .name("frames".to_owned())
        .spawn(receive)
        .map(drop)
}

/// The command while its program runs.
struct Client {
    sending: Sending,
    /// Tells the thread of the input that the next frame may go.
    taken: Sender<()>,
    interrupt: Interrupt,
    /// A second request to end: outputs that nobody reads are given up.
    given_up: Cancel,
    /// The size that the program's terminal has. `None`: this process has none.
    size: Option<(u16, u16)>,
    is_ending: bool,
}

impl Client {
    fn attend(&mut self, frames: &Receiver<io::Result<Frame>>) -> Result<CommandStatus> {
        let output = |number| {
            let unasked = Interrupt::by(self.given_up.clone());
            let opened = Fd::standard(number).and_then(|fd| StreamOutput::new(fd, &unasked));
            opened.map_err(|error| Error::failed("cannot use standard output", &error))
        };
        let (mut output, mut error) = (output(1)?, output(2)?);
        loop {
            let frame = match frames.recv_timeout(PATIENCE) {
                Ok(frame) => frame.map_err(|error| lost(&error))?,
                Err(RecvTimeoutError::Timeout) => {
                    self.follow();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(lost(&io::ErrorKind::UnexpectedEof.into()))
                }
            };
            let written = match frame.kind {
                FrameKind::Output => output.write_all(&frame.bytes),
                FrameKind::Error => error.write_all(&frame.bytes),
                FrameKind::Message => match frame.message().map_err(|error| lost(&error))? {
                    RunAnswer::Ended(status) => return Ok(ExitStatus::from_raw(status).into()),
                    RunAnswer::Taken => {
                        let _ = self.taken.send(());
                        Ok(())
                    }
                    _ => Ok(()),
                },
                FrameKind::Input | FrameKind::Call | FrameKind::Reply => Ok(()),
            };
            written.map_err(|error| Error::of_output("standard output", &error))?;
            self.follow();
        }
    }

    /// Passes on what has happened to this process.
    fn follow(&mut self) {
        if self.interrupt.asked() && !self.is_ending {
            let signal = signals::first().unwrap_or(libc::SIGTERM);
            self.note(Note::Signal(signal));
            self.is_ending = self.interrupt.forget().is_err();
        }
        let size = self.size.and_then(|_| size());
        if let Some((rows, columns)) = size.filter(|_| size != self.size) {
            self.size = size;
            self.note(Note::Size(rows, columns));
        }
    }

    fn note(&self, note: Note) {
        // Of an end, the other direction tells.
        let _ = Frame::send(&mut *locked(&self.sending), &note);
    }
}
