// SPDX-License-Identifier: GPL-2.0-only
//! The standard streams of a program: pipes to those of this process, or a terminal of the kernel
//! if this process has one.
//!
//! | thread | copies |
//! |---|---|
//! | of the input | this process's input to the program's, until one of them ends |
//! | of each output | the program's to this process's, until all programs have closed theirs |
//!
//! While a program has a terminal, this process's own passes all bytes as they are: keys such as
//! Ctrl-C become signals in the kernel. If it goes away, the program gets SIGHUP.

use crate::stream_output::StreamOutput;
use outboard::{errno, Fd, File, Kernel, ProgramRoot, RawTerminal, System};
use outboard_sandbox::interrupt::Interrupt;
use std::io::{self, IsTerminal, Read, Write};
use std::thread::{self, JoinHandle};

/// A pipe of the kernel holds so much.
const BUFFER: usize = 64 * 1024;
/// At the end of an input that is no terminal, a program at a terminal gets this: Ctrl-D.
const END_OF_INPUT: [u8; 1] = [4];

/// An output of this process, and the end from which the program's output comes.
type Output = (File, i32);

/// The streams of a program, before it begins.
pub(super) struct Streams {
    /// The program's ends.
    files: [File; 3],
    input: File,
    outputs: Vec<Output>,
    terminal: Option<Terminal>,
}

/// The terminal of the kernel that a program has.
struct Terminal {
    end: Fd,
    /// Whether this process has one, too.
    is_shown: bool,
}

/// The streams of a program that runs.
pub(super) struct RunningStreams {
    outputs: Vec<JoinHandle<io::Result<()>>>,
    terminal: Option<Terminal>,
    _raw: Option<RawTerminal>,
}

impl Streams {
    /// `wants_terminal`: also without a terminal of this process.
    pub(super) fn new(
        kernel: &Kernel,
        root: &ProgramRoot,
        wants_terminal: bool,
    ) -> io::Result<Self> {
        let is_shown = io::stdin().is_terminal() && io::stdout().is_terminal();
        if is_shown || wants_terminal {
            Self::of_terminal(kernel, root, is_shown)
        } else {
            Self::of_pipes(kernel)
        }
    }

    fn of_pipes(kernel: &Kernel) -> io::Result<Self> {
        let (input_end, input) = kernel.pipe()?;
        let (output, output_end) = kernel.pipe()?;
        let (error, error_end) = kernel.pipe()?;
        Ok(Self {
            files: [input_end, output_end, error_end],
            input,
            outputs: vec![(output, 1), (error, 2)],
            terminal: None,
        })
    }

    /// A standard error that is no terminal stays apart.
    fn of_terminal(kernel: &Kernel, root: &ProgramRoot, is_shown: bool) -> io::Result<Self> {
        let (user, program) = root.terminal()?;
        let copy = |file: &File| file.as_fd().duplicate().map(File::from);
        let terminal = Terminal {
            end: user.as_fd().duplicate()?,
            is_shown,
        };
        if is_shown {
            let settings = Fd::standard(0)?.terminal_settings()?;
            program.as_fd().set_terminal_settings(&settings)?;
            terminal.follow();
        }
        let mut outputs = vec![(copy(&user)?, 1)];
        let error = if io::stderr().is_terminal() || !is_shown {
            copy(&program)?
        } else {
            let (error, end) = kernel.pipe()?;
            outputs.push((error, 2));
            end
        };
        Ok(Self {
            files: [copy(&program)?, program, error],
            input: user,
            outputs,
            terminal: Some(terminal),
        })
    }

    /// The program's ends.
    pub(super) fn files(&self) -> &[File; 3] {
        &self.files
    }

    /// Copies from now on. `number`: the program, which has its ends. `unasked` ends outputs that
    /// nobody reads.
    pub(super) fn start(
        self,
        system: &System,
        number: i32,
        unasked: &Interrupt,
    ) -> io::Result<RunningStreams> {
        let is_shown = self.terminal.as_ref().is_some_and(|found| found.is_shown);
        let raw = is_shown.then(RawTerminal::new).transpose()?;
        let system = system.clone();
        let is_terminal = self.terminal.is_some();
        copy_in(self.input, move |mut input| {
            if is_shown {
                let _ = system.send_signal(-number, libc::SIGHUP);
                let _ = system.send_signal(-number, libc::SIGCONT);
            } else if is_terminal {
                let _ = input.write_all(&END_OF_INPUT);
            }
        })?;
        let copy = |(from, number)| copy_out(from, number, unasked);
        let outputs = self.outputs.into_iter().map(copy);
        Ok(RunningStreams {
            outputs: outputs.collect::<io::Result<_>>()?,
            terminal: self.terminal,
            _raw: raw,
        })
    }
}

impl RunningStreams {
    /// Gives the program's terminal the size of this process's.
    pub(super) fn follow(&self) {
        self.terminal.iter().for_each(Terminal::follow);
    }

    /// Waits until all output has arrived. All programs have ended.
    pub(super) fn finish(self) -> io::Result<()> {
        let gone = |_| Err(io::Error::other("the thread of an output has ended"));
        let ended = self.outputs.into_iter().map(JoinHandle::join);
        ended
            .map(|result| result.unwrap_or_else(gone))
            .fold(Ok(()), Result::and)
    }
}

impl Terminal {
    fn follow(&self) {
        if !self.is_shown {
            return;
        }
        let size = Fd::standard(0).and_then(|own| own.window_size());
        let known = self.end.window_size();
        if let (Ok(size), Ok(known)) = (size, known) {
            if size != known {
                let _ = self.end.set_window_size(size);
            }
        }
    }
}

/// Copies this process's input from now on. Nobody waits for the thread: it may be blocked until
/// this process ends. `at_end`: what to do when the input has ended.
fn copy_in(mut to: File, at_end: impl FnOnce(File) + Send + 'static) -> io::Result<()> {
    let from = Fd::standard(0)?;
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

/// Copies what a program writes to a descriptor of this process. When nobody reads that any more,
/// the program learns of it as on any Linux: the pipe has no reader.
fn copy_out(
    mut from: File,
    number: i32,
    interrupt: &Interrupt,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let mut to = StreamOutput::new(Fd::standard(number)?, interrupt)?;
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
