// SPDX-License-Identifier: GPL-2.0-only
//! A program of a volume, which the volume's kernel runs: the volume is its root, and what it
//! changes stays in memory. Its standard input, output and error are the ones of this process.
//!
//! | thread | copies |
//! |---|---|
//! | of the input | this process's input to the program's, until one of them ends |
//! | of the output, of the error | the program's to this process's, until all programs have ended |
//! | the caller | waits, and passes on signals that ask this process to end |

mod ends;

use crate::address::ImageName;
use crate::host_bind::HostBind;
use crate::session::Session;
use crate::stream_output::StreamOutput;
use ends::ProgramEnds;
use outboard::{
    errno, explained, signals, Cancel, Fd, File, Kernel, Mount, ProgramRoot, RunningProgram,
};
use outboard_error::{Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitStatus;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Until a signal is passed on.
const PATIENCE: Duration = Duration::from_millis(20);
/// A pipe of the kernel holds so much.
const BUFFER: usize = 64 * 1024;

/// The directories in which a program is looked for if nobody says otherwise.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program with its arguments.
pub struct ProgramCommand {
    /// A path in the volume, or a name that is looked for in the directories of PATH.
    pub program: OsString,
    /// Without the program's name.
    pub arguments: Vec<OsString>,
    /// Name and value of variables, the later one if there are two of a name.
    pub environment: Vec<(OsString, OsString)>,
    /// Directories of the host that the program sees.
    pub binds: Vec<HostBind>,
}

impl Session {
    /// Runs a program of a volume to its end. Blocks.
    pub fn run_program(
        &mut self,
        name: &ImageName,
        command: &ProgramCommand,
    ) -> Result<ExitStatus> {
        let index = self.mount(name, false)?;
        let interrupt = self.catch_interrupts();
        let ends = ProgramEnds::new(self.log().0);
        let mount = self.mounted(index);
        let root = mount.program_root().map_err(|error| {
            Error::failed(format!("{}: no root for programs", name.shown()), &error)
        })?;
        let shown: Result<Vec<_>> = command
            .binds
            .iter()
            .map(|bind| bind.show(mount.kernel(), &root))
            .collect();
        let _shown = shown?;
        run_in(mount, &root, command, &interrupt, ends)
    }
}

fn run_in(
    mount: &Mount,
    root: &ProgramRoot,
    command: &ProgramCommand,
    interrupt: &Interrupt,
    mut ends: ProgramEnds,
) -> Result<ExitStatus> {
    let kernel = mount.kernel();
    let streams = |error| Error::failed("cannot make the program's streams", &error);
    let (input_end, input) = kernel.pipe().map_err(streams)?;
    let (output, output_end) = kernel.pipe().map_err(streams)?;
    let (error, error_end) = kernel.pipe().map_err(streams)?;
    let child = start(kernel, root, command, [input_end, output_end, error_end])?;
    copy_in(input).map_err(streams)?;
    let given_up = Cancel::new();
    let unasked = Interrupt::by(given_up.clone());
    let outputs = [copy_out(output, 1, &unasked), copy_out(error, 2, &unasked)];
    let status = wait(child, interrupt, &given_up, &mut ends);
    // Processes that the program has left behind have the pipes open.
    let _ = kernel.system().send_signal(-1, libc::SIGKILL);
    for output in outputs {
        finish(output.map_err(streams)?)?;
    }
    ends.report();
    status
}

/// The paths at which the program may be.
fn candidates(program: &OsString) -> Vec<OsString> {
    if program.as_bytes().contains(&b'/') {
        return vec![program.clone()];
    }
    let in_directory = |directory: &str| {
        let mut path = OsString::from(directory);
        path.push("/");
        path.push(program);
        path
    };
    PATH.split(':').map(in_directory).collect()
}

fn start(
    kernel: &Kernel,
    root: &ProgramRoot,
    command: &ProgramCommand,
    files: [File; 3],
) -> Result<RunningProgram> {
    let mut result = Err(io::Error::from_raw_os_error(libc::ENOENT));
    for path in candidates(&command.program) {
        result = start_at(kernel, root, command, &path, &files);
        match &result {
            Err(error) if errno(error) == Some(libc::ENOENT) => {}
            _ => break,
        }
    }
    result.map_err(|error| {
        let path = command.program.as_bytes().to_vec();
        Error::of_file("cannot run", path, &told(error))
    })
}

fn start_at(
    kernel: &Kernel,
    root: &ProgramRoot,
    command: &ProgramCommand,
    path: &OsString,
    files: &[File; 3],
) -> io::Result<RunningProgram> {
    let mut program = kernel.command(path);
    program.name(&command.program).root(root.tree())?;
    for argument in &command.arguments {
        program.argument(argument);
    }
    for (name, value) in &command.environment {
        program.variable(name, value);
    }
    let copy = |file: &File| file.as_fd().duplicate().map(File::from);
    let [input, output, error] = files.each_ref().map(copy);
    program.input(input?).output(output?).error(error?).spawn()
}

/// The reason in words of this command.
fn told(error: io::Error) -> io::Error {
    match errno(&error) {
        Some(libc::ENOSYS) => explained(
            error,
            "this host cannot run programs: it needs seccomp, new processes, and a processor with \
             FSGSBASE",
        ),
        Some(libc::ENOENT) => explained(
            error,
            "there is no such file in the image, or not the interpreter that it names",
        ),
        Some(libc::ENOEXEC) => explained(error, "no program of x86-64 Linux, and no script"),
        _ => error,
    }
}

/// Copies this process's input from now on. Nobody waits for the thread: it may be blocked until
/// this process ends.
fn copy_in(mut to: File) -> io::Result<()> {
    let from = Fd::standard(0)?;
    let copy = move || {
        let mut buffer = vec![0; BUFFER];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if to.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
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
            match from.read(&mut buffer)? {
                0 => return to.flush(),
                length => to.write_all(&buffer[..length])?,
            }
        }
    };
    thread::Builder::new().name("output".to_owned()).spawn(copy)
}

/// Whether all of the output has arrived. A reader that has gone is the program's affair.
fn finish(output: JoinHandle<io::Result<()>>) -> Result<()> {
    let gone = |_| Err(io::Error::other("the thread of an output has ended"));
    match output.join().unwrap_or_else(gone) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::of_output("standard output", &error))
        }
        _ => Ok(()),
    }
}

/// Waits for the program's end, and passes signals on meanwhile. SIGINT may come again and again;
/// one that ends this process comes once. Then outputs that nobody reads are given up.
fn wait(
    child: RunningProgram,
    interrupt: &Interrupt,
    outputs: &Cancel,
    ends: &mut ProgramEnds,
) -> Result<ExitStatus> {
    let failed = |error| Error::failed("cannot wait for the program", &error);
    let number = child.number();
    let system = child.system().clone();
    let (ended, end) = channel();
    let wait = move || drop(ended.send(child.wait()));
    let started = thread::Builder::new().name("wait".to_owned()).spawn(wait);
    started.map_err(failed)?;
    let mut is_ending = false;
    loop {
        ends.report();
        match end.recv_timeout(PATIENCE) {
            Ok(status) => {
                if is_ending {
                    outputs.cancel();
                }
                return status.map_err(failed);
            }
            Err(RecvTimeoutError::Timeout) if !is_ending && interrupt.asked() => {
                let signal = signals::first().unwrap_or(libc::SIGTERM);
                let _ = system.send_signal(-number, signal);
                is_ending = interrupt.forget().is_err();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(failed(io::Error::other("its thread has ended")))
            }
        }
    }
}

/// The environment that a program gets first.
pub fn usual_environment() -> Vec<(OsString, OsString)> {
    let of_host = |name: &str| Some((name.into(), std::env::var_os(name)?));
    let mut environment = vec![
        ("PATH".into(), PATH.into()),
        ("HOME".into(), "/root".into()),
    ];
    environment.extend(["TERM", "LANG", "LC_ALL"].into_iter().filter_map(of_host));
    environment
}
