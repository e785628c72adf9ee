// SPDX-License-Identifier: GPL-2.0-only
//! The standard streams of a program: pipes of the kernel, or a terminal of it, and threads that
//! copy between these and the streams outside (`outside`).
//!
//! | thread | copies |
//! |---|---|
//! | of the input | the input outside to the program's, until one of them ends |
//! | of each output | the program's to the one outside, until all programs have closed theirs |
//!
//! If output and errors are one file outside, they are one pipe for the program, too: what it
//! writes stays in order.
//!
//! While a terminal outside is that of a program, it passes all bytes as they are: keys such as
//! Ctrl-C become signals in the kernel. If it goes away, the program gets SIGHUP.

use super::outside::{Outside, OutsideTerminal};
use outboard::{errno, Fd, File, Kernel, ProgramRoot, System, WindowSize};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// A pipe of the kernel holds so much.
const BUFFER: usize = 64 * 1024;
/// At the end of an input that is no terminal, a program at a terminal gets this: Ctrl-D.
const END_OF_INPUT: [u8; 1] = [4];

/// An end from which a program's output comes, and the number of the output.
type Output = (File, usize);

/// The streams of a program, before it begins.
pub(super) struct Streams {
    /// The program's ends.
    files: [File; 3],
    input: File,
    outputs: Vec<Output>,
    terminal: Option<Arc<Terminal>>,
}

/// The terminal of the kernel that a program has.
pub(super) struct Terminal {
    end: Fd,
    /// Somebody sits at a terminal outside.
    is_shown: bool,
}

/// The streams of a program that runs.
pub(super) struct RunningStreams {
    outputs: Vec<JoinHandle<io::Result<()>>>,
    terminal: Option<Arc<Terminal>>,
}

impl Streams {
    /// `terminal`: the program gets one. `has_error_apart`: its errors get a pipe of their own.
    pub(super) fn new(
        kernel: &Kernel,
        root: &ProgramRoot,
        terminal: Option<&OutsideTerminal>,
        has_error_apart: bool,
    ) -> io::Result<Self> {
        let mut streams = match terminal {
            Some(terminal) => Self::of_terminal(root, terminal)?,
            None => Self::of_pipes(kernel)?,
        };
        if has_error_apart {
            let (error, end) = kernel.pipe()?;
            streams.outputs.push((error, 1));
            streams.files[2] = end;
        }
        Ok(streams)
    }

    fn of_pipes(kernel: &Kernel) -> io::Result<Self> {
        let (input_end, input) = kernel.pipe()?;
        let (output, end) = kernel.pipe()?;
        Ok(Self {
            files: [input_end, copy(&end)?, end],
            input,
            outputs: vec![(output, 0)],
            terminal: None,
        })
    }

    fn of_terminal(root: &ProgramRoot, outside: &OutsideTerminal) -> io::Result<Self> {
        let (user, program) = root.terminal()?;
        let terminal = Terminal {
            end: user.as_fd().duplicate()?,
            is_shown: outside.is_shown,
        };
        if let Some(settings) = &outside.settings {
            program.as_fd().set_terminal_settings(settings)?;
        }
        terminal.set_size(outside.size);
        Ok(Self {
            files: [copy(&program)?, copy(&program)?, program],
            outputs: vec![(copy(&user)?, 0)],
            input: user,
            terminal: Some(Arc::new(terminal)),
        })
    }

    /// The program's ends.
    pub(super) fn files(&self) -> &[File; 3] {
        &self.files
    }

    /// Copies from now on. `number`: the program, which has its ends.
    pub(super) fn start(
        self,
        system: &System,
        number: i32,
        outside: Outside,
    ) -> io::Result<RunningStreams> {
        let system = system.clone();
        let is_terminal = self.terminal.is_some();
        let is_shown = self.terminal.as_ref().is_some_and(|found| found.is_shown);
        copy_in(outside.input, self.input, move |mut input| {
            if is_shown {
                let _ = system.send_signal(-number, libc::SIGHUP);
                let _ = system.send_signal(-number, libc::SIGCONT);
            } else if is_terminal {
                let _ = input.write_all(&END_OF_INPUT);
            }
        })?;
        let mut ends = outside.outputs.map(Some);
        let copy = |(from, number): Output| {
            let to = ends[number].take();
            to.map(|to| copy_out(from, to)).transpose()
        };
        let outputs: io::Result<Vec<_>> = self.outputs.into_iter().map(copy).collect();
        Ok(RunningStreams {
            outputs: outputs?.into_iter().flatten().collect(),
            terminal: self.terminal,
        })
    }
}

/// A second descriptor of a file.
fn copy(file: &File) -> io::Result<File> {
    file.as_fd().duplicate().map(File::from)
}

impl RunningStreams {
    /// The program's terminal, if it has one.
    pub(super) fn terminal(&self) -> Option<Arc<Terminal>> {
        self.terminal.clone()
    }

    /// Waits until all output has arrived. All programs that have the streams have ended.
    pub(super) fn finish(self) -> io::Result<()> {
        let gone = |_| Err(io::Error::other("the thread of an output has ended"));
        let ended = self.outputs.into_iter().map(JoinHandle::join);
        ended
            .map(|result| result.unwrap_or_else(gone))
            .fold(Ok(()), Result::and)
    }
}

impl Terminal {
    /// Gives it the size of the one outside.
    pub(super) fn set_size(&self, size: Option<WindowSize>) {
        let known = self.end.window_size();
        if let (Some(size), Ok(known)) = (size, known) {
            if size != known {
                let _ = self.end.set_window_size(size);
            }
        }
    }
}

/// Copies the input from now on. Nobody waits for the thread: it may be blocked until this process
/// ends. `at_end`: what to do when the input has ended.
fn copy_in(
    mut from: Box<dyn Read + Send>,
    mut to: File,
    at_end: impl FnOnce(File) + Send + 'static,
) -> io::Result<()> {
    let copy = move || {
        let mut buffer = vec![0; BUFFER];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if to.write_all(&buffer[..length]).is_err() {
                return;
            }
        }
        at_end(to);
    };
    thread::Builder::new()
        .name("input".to_owned())
        .spawn(copy)
        .map(drop)
}

/// Copies what a program writes. When nobody reads that any more, the program learns of it as on
/// any Linux: the pipe has no reader.
fn copy_out(
    mut from: File,
    mut to: Box<dyn Write + Send>,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let copy = move || {
        let mut buffer = vec![0; BUFFER];
        loop {
            let length = match from.read(&mut buffer) {
                // No program has the terminal any more.
                Err(error) if errno(&error) == Some(libc::EIO) => 0,
                read => read?,
            };
            match length {
                0 => return to.flush(),
                length => to.write_all(&buffer[..length])?,
            }
        }
    };
    thread::Builder::new().name("output".to_owned()).spawn(copy)
}
