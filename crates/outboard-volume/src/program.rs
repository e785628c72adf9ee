// SPDX-License-Identifier: GPL-2.0-only
//! A program of a volume or of a directory of the host. The kernel that mounts this root runs the
//! program. The program's standard input, output and error are the ones of this process
//! (`streams`).
//!
//! | thread | does |
//! |---|---|
//! | of the children | waits for all programs without a parent, as init does |
//! | the caller | waits for the first program, and passes on signals that ask this process to end |

mod ends;
mod network;
mod root_source;
mod streams;

use crate::host_bind::HostBind;
use crate::session::Session;
use ends::ProgramEnds;
use outboard::{
    errno, explained, signals, Cancel, File, Kernel, Mount, ProgramRoot, ProgramUser,
    RunningProgram, System, Tree,
};
use outboard_error::format::escaped;
use outboard_error::{Error, Failure, Result};
use outboard_sandbox::interrupt::Interrupt;
pub use root_source::RootSource;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use streams::{RunningStreams, Streams};

/// Until a signal is passed on, and a window has its new size.
const PATIENCE: Duration = Duration::from_millis(20);
/// Until programs that were killed have ended.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// Descriptors that a program may have, as on any Linux. The hard limit stays at what the kernel
/// has.
const OPEN_FILES: u64 = 1024;

/// The directories in which a program is looked for if nobody says otherwise.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Finds a user in the files of a volume.
pub type FindLogin = Box<dyn Fn(&Tree) -> Result<Login>>;

/// A program with its arguments.
#[derive(Default)]
pub struct ProgramCommand {
    /// A path in the volume, or a name that is looked for in the directories of PATH.
    pub program: OsString,
    /// Without the program's name.
    pub arguments: Vec<OsString>,
    /// Name and value of variables, besides the usual ones. The later one if there are two of a
    /// name.
    pub environment: Vec<(OsString, OsString)>,
    /// Directories of the host that the program sees.
    pub binds: Vec<HostBind>,
    /// The working directory; `None`: the root.
    pub directory: Option<OsString>,
    /// Finds the user by the names of the volume; `None`: root.
    pub login: Option<FindLogin>,
    /// The number of the signal that it gets when this process is asked to end by SIGTERM; `None`:
    /// the same.
    pub stop_signal: Option<i32>,
    /// The program gets a terminal also if this process has none.
    pub wants_terminal: bool,
}

/// The user of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    pub user: ProgramUser,
    /// The home directory; `None`: the volume does not say.
    pub home: Option<OsString>,
}

impl Session {
    /// Runs a program of a volume or directory to its end. Changes of these stay in memory, unless
    /// `write`. Blocks.
    pub fn run_program(
        &mut self,
        source: &RootSource,
        command: &ProgramCommand,
        write: bool,
    ) -> Result<ExitStatus> {
        let index = source.mount(self, write)?;
        let interrupt = self.catch_interrupts();
        let ends = ProgramEnds::new(self.log().0);
        let mount = self.mounted(index);
        let shown = source.shown();
        let root = mount
            .program_root()
            .map_err(|error| Error::failed(format!("{shown}: no root for programs"), &error))?;
        network::prepare(mount.kernel(), &root)?;
        let binds = command.binds.iter();
        let shown_binds: Result<Vec<_>> =
            binds.map(|bind| bind.show(mount.kernel(), &root)).collect();
        let _shown_binds = shown_binds?;
        let run = ProgramRun {
            mount,
            root: &root,
            command,
            shown: &shown,
        };
        run.to_its_end(&interrupt, ends)
    }
}

/// A command, and where it runs.
struct ProgramRun<'a> {
    mount: &'a Mount,
    root: &'a ProgramRoot,
    command: &'a ProgramCommand,
    /// The volume's name.
    shown: &'a str,
}

impl ProgramRun<'_> {
    fn kernel(&self) -> &Kernel {
        self.mount.kernel()
    }

    fn to_its_end(&self, interrupt: &Interrupt, mut ends: ProgramEnds) -> Result<ExitStatus> {
        let kernel = self.kernel();
        let system = kernel.system();
        let failed = |error| Error::failed("cannot make the program's streams", &error);
        let login = match &self.command.login {
            Some(find) => find(self.root.tree())?,
            None => Login::default(),
        };
        // Not worth an error.
        let _ = system.adopt_orphans();
        let streams = Streams::new(kernel, self.root, self.command.wants_terminal);
        let streams = streams.map_err(failed)?;
        let child = self.start(&login, streams.files())?;
        let given_up = Cancel::new();
        let unasked = Interrupt::by(given_up.clone());
        let streams = streams.start(system, child.number(), &unasked);
        let streams = streams.map_err(failed)?;
        let (status, others) = self.wait(&child, &streams, interrupt, &given_up, &mut ends)?;
        end_others(system, &others);
        let finished = streams.finish();
        ends.report();
        match finished {
            // A reader that has gone is the program's affair.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Error::of_output("standard output", &error))
            }
            _ => Ok(status),
        }
    }

    /// Waits for the program's end, and passes signals on meanwhile. SIGINT may come again and
    /// again; one that ends this process comes once. Then outputs that nobody reads are given up.
    /// Also returns what ends with the last of the other programs.
    fn wait(
        &self,
        child: &RunningProgram,
        streams: &RunningStreams,
        interrupt: &Interrupt,
        outputs: &Cancel,
        ends: &mut ProgramEnds,
    ) -> Result<(ExitStatus, Receiver<ExitStatus>)> {
        let failed = |error| Error::failed("cannot wait for the program", &error);
        let (number, system) = (child.number(), child.system());
        let (ended, end) = channel();
        let children = system.clone();
        let reap = move || {
            while let Ok((child, status)) = children.wait_for_any_child() {
                if child == number {
                    let _ = ended.send(ExitStatus::from_raw(status));
                }
            }
        };
        let started = thread::Builder::new().name("children".to_owned());
        started.spawn(reap).map_err(failed)?;
        let mut is_ending = false;
        loop {
            ends.report();
            match end.recv_timeout(PATIENCE) {
                Ok(status) => {
                    if is_ending {
                        outputs.cancel();
                    }
                    return Ok((status, end));
                }
                Err(RecvTimeoutError::Timeout) if !is_ending && interrupt.asked() => {
                    let signal = self.signal(signals::first().unwrap_or(libc::SIGTERM));
                    let _ = system.send_signal(-number, signal);
                    is_ending = interrupt.forget().is_err();
                }
                Err(RecvTimeoutError::Timeout) => streams.follow(),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(failed(io::Error::other("its thread has ended")))
                }
            }
        }
    }

    /// The signal that the program gets in place of one for this process.
    fn signal(&self, number: i32) -> i32 {
        match (number, self.command.stop_signal) {
            (libc::SIGTERM, Some(other)) => other,
            (number, _) => number,
        }
    }

    fn start(&self, login: &Login, files: &[File; 3]) -> Result<RunningProgram> {
        // Programs inherit it. They may raise it to the hard limit.
        let _ = self
            .kernel()
            .system()
            .set_soft_limit(libc::RLIMIT_NOFILE, OPEN_FILES);
        let environment = environment(&self.command.environment, login);
        let program = &self.command.program;
        let mut result = Err(io::Error::from_raw_os_error(libc::ENOENT));
        for path in candidates(program, &environment) {
            result = self.start_at(&path, &environment, login, files);
            match &result {
                Err(error) if errno(error) == Some(libc::ENOENT) => {}
                _ => break,
            }
        }
        result.map_err(|error| {
            let path = program.as_bytes().to_vec();
            let what = format!("cannot run {} of {}", escaped(&path), self.shown);
            let failure = Failure::of(&self.told(error)).after(what);
            failure.with_path(path).into()
        })
    }

    fn start_at(
        &self,
        path: &OsStr,
        environment: &[(OsString, OsString)],
        login: &Login,
        files: &[File; 3],
    ) -> io::Result<RunningProgram> {
        let mut program = self.kernel().command(path);
        program
            .name(&self.command.program)
            .root(self.root)?
            .user(login.user.clone());
        if let Some(directory) = &self.command.directory {
            program.directory(directory);
        }
        for argument in &self.command.arguments {
            program.argument(argument);
        }
        for (name, value) in environment {
            program.variable(name, value);
        }
        let copy = |file: &File| file.as_fd().duplicate().map(File::from);
        let [input, output, error] = files.each_ref().map(copy);
        program.input(input?).output(output?).error(error?).spawn()
    }

    /// The reason in words of this command.
    fn told(&self, error: io::Error) -> io::Error {
        let is_directory = || {
            let found = self.root.tree().metadata(Path::new(&self.command.program));
            found.is_ok_and(|found| found.is_dir())
        };
        if error.raw_os_error().is_none() {
            return error;
        }
        match errno(&error) {
            Some(libc::ENOSYS) => explained(
                error,
                "this host cannot run programs: it needs seccomp, new processes, and a processor \
                 with FSGSBASE",
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
}

/// The paths at which the program may be.
fn candidates(program: &OsString, environment: &[(OsString, OsString)]) -> Vec<OsString> {
    if program.as_bytes().contains(&b'/') {
        return vec![program.clone()];
    }
    let in_directory = |directory: &[u8]| {
        let path = [directory, program.as_bytes()].join(&b'/');
        OsStr::from_bytes(&path).to_owned()
    };
    let path = environment.iter().find(|(name, _)| name == "PATH");
    let directories = path.map_or(&b""[..], |(_, value)| value.as_bytes());
    let directories = directories.split(|&byte| byte == b':');
    // As execvp(3) has it, an empty one is the working directory: programs begin in the root.
    directories.map(in_directory).collect()
}

/// Kills what the program has left behind: processes that have its streams and the volume open.
fn end_others(system: &System, others: &Receiver<ExitStatus>) {
    let begin = Instant::now();
    while begin.elapsed() < END_PATIENCE {
        // Again: one may have been made meanwhile.
        let _ = system.send_signal(-1, libc::SIGKILL);
        match others.recv_timeout(PATIENCE) {
            Err(RecvTimeoutError::Disconnected) => return,
            _ => continue,
        }
    }
}

/// The environment that a program gets first: the usual variables, then the others.
fn environment(others: &[(OsString, OsString)], login: &Login) -> Vec<(OsString, OsString)> {
    let home = login.home.clone().unwrap_or_else(|| match login.user.user {
        0 => "/root".into(),
        _ => "/".into(),
    });
    let of_host = |name: &str| Some((name.into(), std::env::var_os(name)?));
    let mut environment = vec![("PATH".into(), PATH.into()), ("HOME".into(), home)];
    environment.extend(["TERM", "LANG", "LC_ALL"].into_iter().filter_map(of_host));
    for (name, value) in others {
        environment.retain(|(known, _)| known != name);
        environment.push((name.clone(), value.clone()));
    }
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> (OsString, OsString) {
        (name.into(), value.into())
    }

    #[test]
    fn the_last_variable_counts() {
        let given = [pair("A", "1"), pair("PATH", "/b::/c"), pair("A", "2")];
        let found = environment(&given, &Login::default());
        assert!(found.contains(&pair("A", "2")) && !found.contains(&pair("A", "1")));
        assert!(found.contains(&pair("HOME", "/root")));
        assert_eq!(candidates(&"x".into(), &found), ["/b/x", "/x", "/c/x"]);
        assert_eq!(candidates(&"./x".into(), &found), ["./x"]);
    }

    #[test]
    fn others_have_a_home() {
        let mut login = Login::default();
        login.user.user = 7;
        assert!(environment(&[], &login).contains(&pair("HOME", "/")));
        login.home = Some("/home/ann".into());
        assert!(environment(&[], &login).contains(&pair("HOME", "/home/ann")));
    }
}
