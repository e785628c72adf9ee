// SPDX-License-Identifier: GPL-2.0-only
//! The start of programs in a root.

use super::command::{candidates, environment, Login, ProgramCommand};
use outboard::{errno, explained, File, Kernel, ProgramRoot, RunningProgram};
use outboard_error::format::escaped;
use outboard_error::{Error, Failure, Result};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Descriptors that a program may have, as on any Linux. The hard limit stays at what the kernel
/// has.
const OPEN_FILES: u64 = 1024;

/// A command, and where it runs.
pub(super) struct ProgramRun {
    pub(super) kernel: Kernel,
    /// `None`: it has ended, or there is none. The root has to go before its volume.
    pub(super) root: RwLock<Option<ProgramRoot>>,
    /// There is a root, or there was one.
    pub(super) has_root: bool,
    pub(super) command: ProgramCommand,
    /// The volume's name.
    pub(super) shown: String,
}

impl ProgramRun {
    pub(super) fn root(&self) -> RwLockReadGuard<'_, Option<ProgramRoot>> {
        self.root.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The root, for a program to start.
    pub(super) fn present<'a>(&self, root: &'a Option<ProgramRoot>) -> Result<&'a ProgramRoot> {
        let reason = if self.has_root {
            "it ends"
        } else {
            "it was started without an image or directory that is the root of programs"
        };
        let absent = || Error::Failed(format!("{} runs no program: {reason}", self.shown));
        root.as_ref().ok_or_else(absent)
    }

    /// The user of a program.
    pub(super) fn login(&self, command: &ProgramCommand, root: &ProgramRoot) -> Result<Login> {
        match &command.user {
            Some(user) => (command.find_login)(user.as_bytes(), root.tree(), &self.shown),
            None => Ok(Login::default()),
        }
    }

    /// No program starts any more.
    pub(super) fn close(&self) {
        *self.root.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Starts a program, and returns once it is loaded.
    pub(super) fn start(
        &self,
        command: &ProgramCommand,
        login: &Login,
        root: &ProgramRoot,
        files: &[File; 3],
    ) -> Result<RunningProgram> {
        // Programs inherit it. They may raise it to the hard limit.
        let _ = self
            .kernel
            .system()
            .set_soft_limit(libc::RLIMIT_NOFILE, OPEN_FILES);
        let environment = environment(&command.environment, login);
        let program = &command.program;
        let mut result = Err(io::Error::from_raw_os_error(libc::ENOENT));
        for path in candidates(program, &environment) {
            let start = ProgramStart {
                run: self,
                command,
                root,
                login,
                environment: &environment,
            };
            result = start.at(&path, files);
            match &result {
                Err(error) if errno(error) == Some(libc::ENOENT) => {}
                _ => break,
            }
        }
        result.map_err(|error| {
            let path = program.as_bytes().to_vec();
            let what = format!("cannot run {} of {}", escaped(&path), self.shown);
            let failure = Failure::of(&told(error, program, root)).after(what);
            failure.with_path(path).into()
        })
    }
}

/// A program of which everything is known but its place.
struct ProgramStart<'a> {
    run: &'a ProgramRun,
    command: &'a ProgramCommand,
    root: &'a ProgramRoot,
    login: &'a Login,
    environment: &'a [(OsString, OsString)],
}

impl ProgramStart<'_> {
    fn at(&self, path: &OsStr, files: &[File; 3]) -> io::Result<RunningProgram> {
        let mut program = self.run.kernel.command(path);
        program
            .name(&self.command.program)
            .root(self.root)?
            .user(self.login.user.clone());
        if let Some(directory) = &self.command.directory {
            program.directory(directory);
        }
        for argument in &self.command.arguments {
            program.argument(argument);
        }
        for (name, value) in self.environment {
            program.variable(name, value);
        }
        let copy = |file: &File| file.as_fd().duplicate().map(File::from);
        let [input, output, error] = files.each_ref().map(copy);
        program.input(input?).output(output?).error(error?).spawn()
    }
}

/// The reason in words of this command.
fn told(error: io::Error, program: &OsStr, root: &ProgramRoot) -> io::Error {
    let is_directory = || {
        let found = root.tree().metadata(Path::new(program));
        found.is_ok_and(|found| found.is_dir())
    };
    if error.raw_os_error().is_none() {
        return error;
    }
    match errno(&error) {
        Some(libc::ENOSYS) => explained(
            error,
            "this host cannot run programs: it needs seccomp, new processes, and a processor with \
             FSGSBASE",
        ),
        Some(libc::ENOENT) => explained(
            error,
            "there is no such file in its root, or not the interpreter that it names",
        ),
        Some(libc::ENOEXEC) => explained(error, "no program of x86-64 Linux, and no script"),
        Some(libc::EACCES) if is_directory() => explained(error, "it is a directory"),
        _ => error,
    }
}
