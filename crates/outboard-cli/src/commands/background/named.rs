// SPDX-License-Identifier: GPL-2.0-only
//! The directories of runs in the background, one for each name.
//!
//! | file | holds |
//! |---|---|
//! | `log` | what the programs and the run itself print; locked while the run lives |
//! | `control` | the socket by which commands reach the run |
//! | `run` | the process and the words, as JSON |
//! | `end` | the exit code; empty until the run has ended |
//!
//! A name whose run has ended can be used again.

use outboard::Fd;
use outboard_error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most characters of a name: the host's limit for paths of sockets leaves room for as many.
const LONGEST: usize = 40;
/// Until a look by another command is over, which locks for a moment.
const PATIENCE: Duration = Duration::from_millis(200);
const INTERVAL: Duration = Duration::from_millis(5);

/// The process and the words of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The process that holds the kernel.
    pub pid: u32,
    pub image: OsString,
    pub program: Vec<OsString>,
    /// Seconds since 1970.
    pub began: i64,
}

/// Whether a run lives, or how it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    Running,
    Exited(u8),
    /// It could not record its end: it was killed, or the host has restarted.
    Lost,
}

/// A name, and its directory.
pub struct NamedRun {
    name: String,
    directory: PathBuf,
}

/// A name that a new run has taken.
pub struct TakenName {
    /// Keeps the lock.
    pub log: File,
    pub end: File,
    pub run: NamedRun,
}

/// Checks a name for a run.
pub fn parse_name(text: &str) -> std::result::Result<String, String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let begins = |byte: &u8| byte.is_ascii_alphanumeric();
    if text.len() > LONGEST {
        return Err(format!("a name has at most {LONGEST} characters"));
    }
    if !text.bytes().all(is_part) || !text.as_bytes().first().is_some_and(begins) {
        return Err(
            "a name has letters, digits, '_', '.' and '-', and begins with a letter or a \
                    digit"
                .to_owned(),
        );
    }
    Ok(text.to_owned())
}

/// The directory of all runs. The XDG Base Directory Specification says: ignore relative paths.
fn root() -> Result<PathBuf> {
    let absolute = |name| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let own = fs::metadata("/proc/self").map(|found| found.uid());
    let of_root = || matches!(own, Ok(0)).then(|| PathBuf::from("/run"));
    let at_home = || absolute("HOME").map(|home| home.join(".cache"));
    let found = absolute("XDG_RUNTIME_DIR")
        .or_else(of_root)
        .or_else(at_home);
    let found = found.ok_or_else(|| {
        Error::Failed(
            "there is no place for runs in the background: set XDG_RUNTIME_DIR to a directory of \
             yours"
                .to_owned(),
        )
    });
    Ok(found?.join("outboard-runs"))
}

/// All names, sorted.
pub fn all() -> Result<Vec<NamedRun>> {
    let root = root()?;
    let entries = match fs::read_dir(&root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| cannot("read", &root, &error))?,
    };
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| parse_name(name).is_ok()).collect();
    names.sort_unstable();
    let named = |name| NamedRun {
        directory: root.join(&name),
        name,
    };
    Ok(names.into_iter().map(named).collect())
}

fn cannot(work: &str, path: &Path, error: &io::Error) -> Error {
    Error::failed(format!("cannot {work} {}", path.display()), error)
}

/// A directory for the user alone, who must be its owner.
fn make_private(path: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| cannot("make", path, &error))?;
    let found = fs::symlink_metadata(path).map_err(|error| cannot("use", path, &error))?;
    let own = fs::metadata("/proc/self").map(|found| found.uid());
    if !found.is_dir() || own.map_or(true, |own| own != found.uid()) || found.mode() & 0o077 != 0 {
        return Err(Error::Failed(format!(
            "{} belongs to another user, or others may use it: runs in the background would be \
             theirs. Remove it, or set XDG_RUNTIME_DIR to a directory of yours",
            path.display()
        )));
    }
    Ok(())
}

fn lock(file: &File) -> io::Result<bool> {
    let file = Fd::from(OwnedFd::from(file.try_clone()?));
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if file.try_lock()? {
            return Ok(true);
        }
        std::thread::sleep(INTERVAL);
    }
    Ok(false)
}

impl NamedRun {
    /// A name that has a run, or had one.
    pub fn find(name: &str) -> Result<Self> {
        let directory = root()?.join(name);
        if !directory.is_dir() {
            let names: Vec<String> = all()?.into_iter().map(|run| run.name).collect();
            let known = match names.as_slice() {
                [] => "there are no runs in the background (outboard run -d starts one)".to_owned(),
                names => format!("there are: {}", names.join(", ")),
            };
            return Err(Error::known(
                ErrorKind::NotFound,
                format!("{name}: no run has this name: {known}"),
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            directory,
        })
    }

    /// Takes a name for a new run, and listens at its socket. What an ended run of this name has
    /// left is removed.
    pub fn take(name: &str) -> Result<(TakenName, UnixListener)> {
        let root = root()?;
        make_private(&root)?;
        let run = Self {
            name: name.to_owned(),
            directory: root.join(name),
        };
        make_private(&run.directory)?;
        let log = run.open(
            "log",
            OpenOptions::new().append(true).read(true).create(true),
        )?;
        if !lock(&log).map_err(|error| cannot("lock", &run.directory, &error))? {
            return Err(Error::known(
                ErrorKind::InUse,
                format!(
                    "{name}: a run of this name is in progress: choose another --name, or end it \
                     by \"outboard stop {name}\""
                ),
            ));
        }
        log.set_len(0)
            .map_err(|error| cannot("write", &run.directory, &error))?;
        let mut options = OpenOptions::new();
        let end = run.open("end", options.write(true).create(true).truncate(true))?;
        let listener = run.listen()?;
        Ok((TakenName { log, end, run }, listener))
    }

    fn open(&self, name: &str, options: &mut OpenOptions) -> Result<File> {
        let path = self.directory.join(name);
        let opened = options.mode(0o600).open(&path);
        opened.map_err(|error| cannot("open", &path, &error))
    }

    fn listen(&self) -> Result<UnixListener> {
        let path = self.socket();
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path);
        let listener = listener.map_err(|error| cannot("listen at", &path, &error))?;
        // The directory keeps others out before.
        let private = fs::set_permissions(&path, Permissions::from_mode(0o600));
        private.map_err(|error| cannot("protect", &path, &error))?;
        Ok(listener)
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("control")
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Connects to the run, which must be in progress.
    pub fn connect(&self) -> Result<UnixStream> {
        if self.state() != RunState::Running {
            return Err(self.not_running());
        }
        let path = self.socket();
        UnixStream::connect(&path).map_err(|error| cannot("reach", &path, &error))
    }

    /// The error of a command for a run that is not in progress.
    fn not_running(&self) -> Error {
        let name = &self.name;
        let state = match self.state() {
            RunState::Running => "ends at this moment".to_owned(),
            RunState::Exited(code) => format!("has ended with exit code {code}"),
            RunState::Lost => "has ended, nobody knows how".to_owned(),
        };
        Error::Failed(format!(
            "{name}: the run {state} (\"outboard logs {name}\" shows its output)"
        ))
    }

    /// Opens the log.
    pub fn log(&self) -> Result<File> {
        self.open("log", OpenOptions::new().read(true))
    }

    pub fn write(&self, record: &Record) -> Result<()> {
        let path = self.directory.join("run");
        let text = serde_json::to_vec(record).map_err(io::Error::from);
        let written = text.and_then(|text| fs::write(&path, text));
        written.map_err(|error| cannot("write", &path, &error))
    }

    /// Its process and words. `None`: its start is in progress, or has failed.
    pub fn record(&self) -> Option<Record> {
        let text = fs::read(self.directory.join("run")).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub fn state(&self) -> RunState {
        let is_free = self.log().is_ok_and(|log| {
            let log = Fd::from(OwnedFd::from(log));
            log.try_lock_shared().unwrap_or(false)
        });
        if !is_free {
            return RunState::Running;
        }
        let code = fs::read_to_string(self.directory.join("end"));
        let code = code.ok().and_then(|text| text.trim().parse().ok());
        code.map_or(RunState::Lost, RunState::Exited)
    }

    /// Removes the name, which no run uses.
    pub fn remove(&self) -> Result<()> {
        let removed = fs::remove_dir_all(&self.directory);
        removed.map_err(|error| cannot("remove", &self.directory, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for name in ["a", "web-1", "A.b_c", "9"] {
            assert_eq!(parse_name(name).as_deref(), Ok(name));
        }
        let long = "x".repeat(LONGEST + 1);
        for name in ["", ".", "..", "-a", "a/b", "a b", "\u{e9}", &long] {
            assert!(parse_name(name).is_err(), "{name}");
        }
    }
}
