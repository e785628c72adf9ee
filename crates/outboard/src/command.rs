// SPDX-License-Identifier: GPL-2.0-only
//! Programs: unmodified binaries that run as processes of a kernel, each in memory of its own.

use crate::{File, Kernel, ProgramRoot};
use outboard_sys::{explained, libc, Fd, System};
use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::thread;

/// The files that a program has as its standard input, output and error: of the kernel, as a
/// [pipe](Kernel::pipe)'s ends.
struct Standard {
    input: File,
    output: File,
    error: File,
}

/// The user that a program runs as, by the numbers of its root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramUser {
    /// The user's number; 0: root, who has all rights in the kernel.
    pub user: u32,
    /// The group's number.
    pub group: u32,
    /// The numbers of further groups.
    pub groups: Vec<u32>,
}

/// The file mode mask of programs.
const UMASK: u32 = 0o022;

/// A program and the way to run it. As [`std::process::Command`], but the program is a file
/// of the kernel, and nothing is inherited: no variable of the environment, and /dev/null in the
/// place of standard input, output and error.
///
/// ```no_run
/// use std::io::Read;
///
/// # fn show(mount: &outboard::Mount) -> std::io::Result<()> {
/// let root = mount.program_root()?;
/// let (mut output, end) = mount.kernel().pipe()?;
/// let mut uname = mount.kernel().command("/bin/uname");
/// let child = uname.argument("-a").root(&root)?.output(end).spawn()?;
/// let mut line = String::new();
/// output.read_to_string(&mut line)?;
/// assert!(child.wait()?.success());
/// # Ok(())
/// # }
/// ```
pub struct Command {
    kernel: Kernel,
    path: Vec<u8>,
    arguments: Vec<Vec<u8>>,
    environment: Vec<Vec<u8>>,
    mounts: Option<Fd>,
    directory: Option<Vec<u8>>,
    user: ProgramUser,
    input: Option<File>,
    output: Option<File>,
    error: Option<File>,
}

impl Kernel {
    /// A program that this kernel is to run: a path from the program's root.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let path = program.as_ref().as_bytes().to_vec();
        Command {
            kernel: self.clone(),
            arguments: vec![path.clone()],
            path,
            environment: Vec::new(),
            mounts: None,
            directory: None,
            user: ProgramUser::default(),
            input: None,
            output: None,
            error: None,
        }
    }

    /// A new pipe of this kernel: the end to read from, and the end to write to.
    pub fn pipe(&self) -> io::Result<(File, File)> {
        let (read, write) = self.system().pipe()?;
        Ok((File::from(read), File::from(write)))
    }
}

impl Command {
    /// The program's name for itself, which comes before the arguments. Default: its path.
    pub fn name(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.arguments[0] = name.as_ref().as_bytes().to_vec();
        self
    }

    /// Adds an argument.
    pub fn argument(&mut self, argument: impl AsRef<OsStr>) -> &mut Self {
        self.arguments.push(argument.as_ref().as_bytes().to_vec());
        self
    }

    /// Adds a variable to the environment.
    pub fn variable(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        let parts = [name.as_ref().as_bytes(), value.as_ref().as_bytes()];
        self.environment.push(parts.join(&b'='));
        self
    }

    /// The program's root. Default: the kernel's first root, which has no programs of its own.
    pub fn root(&mut self, root: &ProgramRoot) -> io::Result<&mut Self> {
        self.mounts = Some(root.mounts().duplicate()?);
        Ok(self)
    }

    /// The user. Default: root, in the kernel.
    pub fn user(&mut self, user: ProgramUser) -> &mut Self {
        self.user = user;
        self
    }

    /// The working directory, a path from the root. Default: the root.
    pub fn directory(&mut self, path: impl AsRef<Path>) -> &mut Self {
        self.directory = Some(path.as_ref().as_os_str().as_bytes().to_vec());
        self
    }

    /// The standard input. A [terminal](ProgramRoot::terminal) controls the program's session.
    pub fn input(&mut self, file: File) -> &mut Self {
        self.input = Some(file);
        self
    }

    /// The standard output.
    pub fn output(&mut self, file: File) -> &mut Self {
        self.output = Some(file);
        self
    }

    /// The standard error.
    pub fn error(&mut self, file: File) -> &mut Self {
        self.error = Some(file);
        self
    }

    /// Runs the program, and returns once it is loaded. Takes the command's files with it.
    ///
    /// `ENOSYS` ([`io::ErrorKind::Unsupported`]): this host cannot run programs. `ENOEXEC`: it is
    /// no program of this machine. `ENOENT`: there is no such file, or no interpreter of it.
    pub fn spawn(&mut self) -> io::Result<RunningProgram> {
        let start = self.start()?;
        let gone = |_| {
            Err(io::Error::other(
                "the thread that starts a program has ended",
            ))
        };
        // A thread of its own, whose root and descriptors the program gets. They go with it.
        let number = thread::scope(|scope| {
            let started = scope.spawn(|| start.run());
            started.join().unwrap_or_else(gone)
        })?;
        Ok(RunningProgram {
            system: self.kernel.system().clone(),
            number,
        })
    }

    fn start(&mut self) -> io::Result<Start> {
        let text = |bytes: &Vec<u8>| CString::new(bytes.clone()).map_err(io::Error::from);
        let system = self.kernel.system();
        let null = |file: Option<File>| match file {
            Some(file) => Ok(file),
            None => Fd::working_directory(system)
                .open_at(c"/dev/null", libc::O_RDWR, 0)
                .map(File::from),
        };
        Ok(Start {
            kernel: self.kernel.clone(),
            path: text(&self.path)?,
            arguments: self.arguments.iter().map(text).collect::<io::Result<_>>()?,
            environment: self
                .environment
                .iter()
                .map(text)
                .collect::<io::Result<_>>()?,
            mounts: self.mounts.as_ref().map(Fd::duplicate).transpose()?,
            directory: self.directory.as_ref().map(text).transpose()?,
            user: self.user.clone(),
            standard: Standard {
                input: null(self.input.take())?,
                output: null(self.output.take())?,
                error: null(self.error.take())?,
            },
        })
    }
}

/// A command whose parts are as the kernel takes them.
struct Start {
    kernel: Kernel,
    path: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    mounts: Option<Fd>,
    directory: Option<CString>,
    user: ProgramUser,
    standard: Standard,
}

impl Start {
    /// By a thread that does nothing else, and whose descriptors are closed when it ends.
    fn run(&self) -> io::Result<i32> {
        let system = self.kernel.system();
        system.set_thread_apart()?;
        system.umask(UMASK);
        let files = &self.standard;
        Fd::make_standard([&files.input, &files.output, &files.error].map(File::as_fd))?;
        if let Some(mounts) = &self.mounts {
            system.enter_mounts(mounts)?;
        }
        if let Some(directory) = &self.directory {
            system.change_directory(directory).map_err(|error| {
                let text = format!("working directory {}: {error}", directory.to_string_lossy());
                explained(error, text)
            })?;
        }
        let ProgramUser {
            user,
            group,
            groups,
        } = &self.user;
        system.become_user(*user, *group, groups)?;
        let instance = self.kernel.instance();
        instance.spawn(&self.path, &self.arguments, &self.environment)
    }
}

/// A program that runs. It goes on when this is dropped, and ends with its kernel.
pub struct RunningProgram {
    system: System,
    number: i32,
}

impl RunningProgram {
    /// The number of its process in the kernel.
    pub fn number(&self) -> i32 {
        self.number
    }

    /// The kernel that runs it.
    #[doc(hidden)]
    pub fn system(&self) -> &System {
        &self.system
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        self.system.send_signal(self.number, signal)
    }

    /// Waits until it has ended. To be called once. Blocks.
    pub fn wait(self) -> io::Result<ExitStatus> {
        let status = self.system.wait_for_child(self.number)?;
        Ok(ExitStatus::from_raw(status))
    }
}
