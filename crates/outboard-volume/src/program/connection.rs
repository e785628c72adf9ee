// SPDX-License-Identifier: GPL-2.0-only
//! A command that is connected to this run: its frames are the streams of a program.
//!
//! | thread | does |
//! |---|---|
//! | of the connection | reads frames: input, signals, sizes, and the end of the connection |
//! | of the input, of each output | copies, as for any program (`streams`) |
//! | of the end | waits for the program and its output, and sends the status |

use super::outside::Outside;
use outboard_protocol::frames::{Frame, FrameKind, RunAnswer};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

/// The connection, for several threads that send.
#[derive(Clone)]
pub(super) struct ClientConnection {
    socket: Arc<Mutex<UnixStream>>,
}

/// The end that passes input on to the program.
pub(super) struct InputEnd {
    sender: Option<Sender<Vec<u8>>>,
}

/// The input of a program, from frames.
struct FrameInput {
    frames: Receiver<Vec<u8>>,
    /// Of the last frame.
    rest: Vec<u8>,
    begin: usize,
    connection: ClientConnection,
}

/// One output of a program, to frames.
struct FrameOutput {
    kind: FrameKind,
    connection: ClientConnection,
}

impl ClientConnection {
    pub(super) fn new(socket: &UnixStream) -> io::Result<Self> {
        let socket = Arc::new(Mutex::new(socket.try_clone()?));
        Ok(Self { socket })
    }

    pub(super) fn send(&self, answer: &RunAnswer) -> io::Result<()> {
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        Frame::send(&mut *socket, answer)
    }

    fn write(&self, kind: FrameKind, bytes: &[u8]) -> io::Result<()> {
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        Frame::write(&mut *socket, kind, bytes)
    }

    /// The streams of a program.
    pub(super) fn streams(&self) -> (InputEnd, Outside) {
        let (sender, frames) = channel();
        let input = FrameInput {
            frames,
            rest: Vec::new(),
            begin: 0,
            connection: self.clone(),
        };
        let output = |kind| FrameOutput {
            kind,
            connection: self.clone(),
        };
        let outside = Outside {
            input: Box::new(input),
            outputs: [
                Box::new(output(FrameKind::Output)),
                Box::new(output(FrameKind::Error)),
            ],
        };
        let sender = Some(sender);
        (InputEnd { sender }, outside)
    }
}

impl InputEnd {
    /// Passes the bytes of a frame on. None: the input has ended. The command sends the next frame
    /// after it was told that this one was taken.
    pub(super) fn pass(&mut self, bytes: Vec<u8>) {
        if bytes.is_empty() {
            self.sender = None;
        } else if let Some(sender) = &self.sender {
            // A program without an input has closed it.
            let _ = sender.send(bytes);
        }
    }
}

impl Read for FrameInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.begin == self.rest.len() {
            if !self.rest.is_empty() {
                self.connection.send(&RunAnswer::Taken)?;
            }
            self.begin = 0;
            self.rest = self.frames.recv().unwrap_or_default();
        }
        let length = buffer.len().min(self.rest.len() - self.begin);
        buffer[..length].copy_from_slice(&self.rest[self.begin..self.begin + length]);
        self.begin += length;
        Ok(length)
    }
}

impl Write for FrameOutput {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.connection.write(self.kind, buffer)?;
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
