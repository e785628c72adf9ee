// SPDX-License-Identifier: MIT
//! Frames between a kernel's process and those who reach it, and the messages in them:
//! docs/protocol.md.
//!
//! The other end may be hostile, so a length is checked before anything is read, and memory is
//! taken only for bytes that came.

use crate::client::ClientRequest;
use crate::server::{ProcessRow, ServerStatus};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, Read, Write};

/// Most bytes of a frame behind its header.
const LONGEST: usize = 1 << 20;
/// The length, and the kind.
const HEADER: usize = 5;
/// Memory for bytes that did not come yet.
const PIECE: usize = 1 << 16;

/// The kinds of frames, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A message, as JSON.
    Message = 0,
    /// Bytes for the standard input of a program. None: it has ended.
    Input = 1,
    /// Bytes of its standard output.
    Output = 2,
    /// Bytes of its standard error.
    Error = 3,
    /// A call of a client: [`crate::call_frame::CallFrame`].
    Call = 4,
    /// The reply to it: [`crate::call_frame::ReplyFrame`].
    Reply = 5,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What the bytes are.
    pub kind: FrameKind,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// The first message of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Wait until the first program runs.
    Start,
    /// Run a further program.
    Run(ProgramRequest),
    /// End the first program, and with it the run: by a signal, and after so many milliseconds by
    /// SIGKILL.
    Stop {
        /// The number of the signal; `None`: the run's own, SIGTERM.
        signal: Option<i32>,
        /// How long the program may take.
        milliseconds: u64,
    },
    /// The secret of a server that is reached by `tcp:`. The request follows.
    Token(String),
    /// Be a process of the kernel, whose system calls come from outside.
    Client(ClientRequest),
    /// Report the state of a server.
    Status,
    /// List programs and clients of a server: several [`RunAnswer::Processes`], and an end.
    Processes,
    /// Send the kernel's log, as output of a program.
    Log,
    /// End a server, as it ends by itself: with all changes on stable storage.
    Halt,
}

/// A program that a command wants to be run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRequest {
    /// A path in the volume or a name, and the arguments.
    pub words: Vec<OsString>,
    /// Names and values of variables, besides the usual ones and those of the run.
    pub environment: Vec<(OsString, OsString)>,
    /// The working directory; `None`: the run's.
    pub directory: Option<OsString>,
    /// The user, by numbers or names of the volume; `None`: the run's.
    pub user: Option<OsString>,
    /// The program gets a terminal.
    pub terminal: Option<TerminalRequest>,
    /// Without a terminal: one pipe for output and errors, whose bytes all come as output.
    #[serde(default)]
    pub has_one_output: bool,
}

impl ProgramRequest {
    /// Whether the errors come in frames of their own.
    pub fn has_error_apart(&self) -> bool {
        self.terminal
            .map_or(!self.has_one_output, |terminal| terminal.has_error_apart)
    }
}

/// The terminal of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalRequest {
    /// Somebody sits at one. When the connection ends, the program's terminal goes away.
    pub is_shown: bool,
    /// Standard error is apart.
    pub has_error_apart: bool,
    /// Rows and columns, if they are known.
    pub size: Option<(u16, u16)>,
}

/// A later message of a command whose program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// A signal for the program.
    Signal(i32),
    /// The terminal has so many rows and columns now.
    Size(u16, u16),
}

/// A message to a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunAnswer {
    /// The program runs.
    Started,
    /// The last input was passed on: the next one may come.
    Taken,
    /// The program has ended, with this status of wait(2).
    Ended(i32),
    /// The state of a server.
    Status(ServerStatus),
    /// Programs and clients of a server, at most [`crate::server::MOST_ROWS`]; more may follow.
    Processes(Vec<ProcessRow>),
    /// It could not be started, or the request makes no sense.
    Failed {
        /// The reason, one line.
        reason: String,
        /// The exit code for it.
        code: u8,
    },
}

fn garbage(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

impl FrameKind {
    fn of(number: u8) -> io::Result<Self> {
        let kinds = [
            Self::Message,
            Self::Input,
            Self::Output,
            Self::Error,
            Self::Call,
            Self::Reply,
        ];
        let found = kinds.into_iter().find(|&kind| kind as u8 == number);
        found.ok_or_else(|| garbage(format!("there is no frame of kind {number}")))
    }
}

impl Frame {
    /// Reads the next frame. `None`: the other end was closed before it. Blocks.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER];
        let first = loop {
            match from.read(&mut header) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if first == 0 {
            return Ok(None);
        }
        from.read_exact(&mut header[first..])?;
        let [a, b, c, d, kind] = header;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let kind = FrameKind::of(kind)?;
        if length > LONGEST {
            return Err(garbage(format!("a frame of {length} bytes is too long")));
        }
        let mut bytes = Vec::with_capacity(length.min(PIECE));
        let read = from.take(length as u64).read_to_end(&mut bytes)?;
        if read < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(Self { kind, bytes }))
    }

    /// Writes a frame, of at most 1 MiB. Blocks.
    pub fn write(to: &mut impl Write, kind: FrameKind, bytes: &[u8]) -> io::Result<()> {
        let too_long = || garbage("a frame has at most 1 MiB: fewer arguments, or shorter ones");
        if bytes.len() > LONGEST {
            return Err(too_long());
        }
        let length = u32::try_from(bytes.len()).map_err(|_| too_long())?;
        let mut frame = Vec::with_capacity(HEADER + bytes.len());
        frame.extend(length.to_le_bytes());
        frame.push(kind as u8);
        frame.extend(bytes);
        to.write_all(&frame)
    }

    /// Writes a message. Blocks.
    pub fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
        Self::write(to, FrameKind::Message, &serde_json::to_vec(message)?)
    }

    /// The message that the frame is.
    pub fn message<T: DeserializeOwned>(&self) -> io::Result<T> {
        if self.kind != FrameKind::Message {
            return Err(garbage("a message was expected"));
        }
        serde_json::from_slice(&self.bytes).map_err(io::Error::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{ProcessKind, LONGEST_NAME, MOST_ROWS};

    fn read(mut bytes: &[u8]) -> io::Result<Option<Frame>> {
        Frame::read(&mut bytes)
    }

    #[test]
    fn frames_arrive_as_they_were_written() {
        let mut bytes = Vec::new();
        let long = vec![7; LONGEST];
        Frame::write(&mut bytes, FrameKind::Input, b"").unwrap();
        Frame::write(&mut bytes, FrameKind::Error, &long).unwrap();
        let request = Request::Run(ProgramRequest {
            words: vec!["a".into(), "\u{e9} b".into()],
            ..ProgramRequest::default()
        });
        Frame::send(&mut bytes, &request).unwrap();
        let mut from = &bytes[..];
        let mut next = || Frame::read(&mut from).unwrap();
        assert_eq!(next().unwrap().kind, FrameKind::Input);
        let error = next().unwrap();
        assert!(error.kind == FrameKind::Error && error.bytes == long);
        assert_eq!(next().unwrap().message::<Request>().unwrap(), request);
        assert_eq!(next(), None);
    }

    #[test]
    fn the_longest_table_of_processes_is_a_frame() {
        let row = ProcessRow {
            kind: ProcessKind::Client,
            process: i32::MIN,
            user: u32::MAX,
            host_process: i32::MIN,
            host_user: u32::MAX,
            // In JSON it takes six bytes.
            name: "\u{1}".repeat(LONGEST_NAME),
            threads: Some(u64::MAX),
            calls: Some(u64::MAX),
        };
        let answer = RunAnswer::Processes(vec![row; MOST_ROWS]);
        Frame::send(&mut Vec::new(), &answer).unwrap();
    }

    #[test]
    fn a_frame_has_a_limit() {
        let mut bytes = Vec::new();
        let written = Frame::write(&mut bytes, FrameKind::Input, &vec![0; LONGEST + 1]);
        assert!(written.is_err() && bytes.is_empty());
        // Nothing follows: the length alone is refused.
        let error = read(&[1, 0, 16, 0, 1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let error = read(&[255, 255, 255, 255, 1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn garbage_is_refused() {
        assert!(read(&[0, 0, 0, 0, 6]).is_err());
        for bytes in [&[0][..], &[1, 0, 0, 0], &[2, 0, 0, 0, 1, 9]] {
            let error = read(bytes).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{bytes:?}");
        }
        let frame = read(&[2, 0, 0, 0, 0, b'{', b'}']).unwrap().unwrap();
        assert!(frame.message::<Request>().is_err());
        let frame = read(&[0, 0, 0, 0, 2]).unwrap().unwrap();
        assert!(frame.message::<RunAnswer>().is_err());
    }
}
