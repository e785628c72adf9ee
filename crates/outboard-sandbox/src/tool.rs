// SPDX-License-Identifier: GPL-2.0-only
//! Runs tools of the distribution as second processes: no shell, a clean environment, a sandbox
//! with the given files, and no control characters of their output on a terminal.
//!
//! The lines of a tool on standard error reach the user, also when the tool ends with success:
//! [`Ended::remarks`] returns all lines but those of `CHATTER`.

use crate::interrupt::Guard;
use crate::sandbox::programs::{shut_in, ProgramFiles};
use outboard::{signals, stopped};
use outboard_error::format::escaped;
use outboard_error::{front, warn, Error, ErrorKind, Result};
use outboard_worker::{Launch, Process};
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

/// Directories of tools, besides the user's PATH.
const PLACES: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];
/// Files about the machine, the process and settings that tools read. Landlock also protects
/// memory, environments and files of other processes in /proc.
const QUESTIONS: [&str; 5] = [
    "/proc",
    "/sys",
    "/etc/mtab",
    "/etc/mke2fs.conf",
    "/etc/e2fsck.conf",
];
/// Lines of a tool's output in an error message: the first ones and the last ones. Some tools print
/// the error first and then their usage, others print it last, after their progress.
const FIRST: usize = 4;
const LAST: usize = 4;
/// Bytes kept of each pipe.
const KEPT: usize = 1 << 20;

/// Lines that tools print on standard error in ordinary use. They are patterns of whole lines,
/// without the tool's name before them: `*` is any text.
const CHATTER: &[(&str, &[&str])] = &[
    ("debugfs", &["debugfs 1.* (*)"]),
    (
        "resize2fs",
        &[
            "resize2fs 1.* (*)",
            "The filesystem is already * blocks long.  Nothing to do!",
        ],
    ),
    (
        "mke2fs",
        &["ext2fs_check_if_mount: * while determining whether * is mounted."],
    ),
    // Our losses have the names of the files.
    (
        "mksquashfs",
        &["Unrecognised xattr prefix system.posix_acl_*"],
    ),
    (
        "mkntfs",
        &[
            "* is not a block device.",
            "mkntfs forced anyway.",
            "The partition start sector was not specified for * It has been set to 0.",
            "The number of sectors per track was not specified for * It has been set to 0.",
            "The number of heads was not specified for * It has been set to 0.",
            "The sector size was not specified for * It has been set to 512 bytes.",
            "To boot from a device, Windows needs the 'partition start sector', the 'sectors per \
             track' and the 'number of heads' to be set.",
            "Windows will not be able to boot from this device.",
        ],
    ),
    (
        "mkswap",
        &[
            "*: insecure permissions *, fix with: chmod *",
            "*: insecure file owner *, fix with: chown 0:0 *",
            "* contains holes or other unsupported extents.",
            "This swap file can be rejected by kernel on swap activation!",
            "Use --verbose for more details.",
        ],
    ),
    (
        "sfdisk",
        &[
            "GPT PMBR size mismatch (*) will be corrected by write.",
            "The backup GPT table is not on the end of the device. This problem will be corrected \
             by write.",
        ],
    ),
    (
        "mkfs.cramfs",
        &[
            // It is wrong about trees that compress well, and fails if it is right.
            "warning: guestimate of required size (upper bound) is *",
            // Our losses have the names of the files.
            "warning: uids truncated to *",
            "warning: gids truncated to *",
        ],
    ),
    (
        "xorriso",
        &[
            "xorriso 1.* : RockRidge filesystem manipulator, libburnia project.",
            "xorriso : NOTE : *",
            "xorriso : UPDATE : *",
            "libisofs: NOTE : *",
        ],
    ),
];

/// Whether a tool is sandboxed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confinement {
    /// It may use only the given files.
    #[default]
    Sandboxed,
    /// It has all rights of the user.
    Unconfined,
}

/// A program and its Debian package.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Name of the program.
    pub name: &'static str,
    /// Debian's package with the program.
    pub package: &'static str,
}

/// Whether the whole line is as the pattern says: `*` is any text.
fn fits(pattern: &str, line: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == line;
    };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let line = line
        .strip_prefix(start)
        .and_then(|line| line.strip_suffix(end));
    let Some(mut line) = line else {
        return false;
    };
    for piece in middle.split('*') {
        match line.split_once(piece) {
            Some((_, behind)) => line = behind,
            None => return false,
        }
    }
    true
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .chain(PLACES.iter().map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

/// Prepares a program of the host, with a clean environment.
fn clean_launch(program: &Path) -> Launch {
    Launch::new(program)
        .clear_environment()
        .variable("PATH", PLACES.join(":"))
        .variable("LC_ALL", "C")
        .variable("TZ", "UTC")
}

/// The path of a program of the host. A missing one is `NotFound`.
pub fn path_of(name: &str) -> io::Result<PathBuf> {
    Ok(find(name).ok_or(io::ErrorKind::NotFound)?)
}

/// A program of the host without a sandbox. A missing one is `NotFound`.
pub fn unconfined(name: &str) -> io::Result<Launch> {
    Ok(clean_launch(&path_of(name)?))
}

impl Tool {
    /// A program of this name, and its Debian package.
    pub const fn new(name: &'static str, package: &'static str) -> Self {
        Self { name, package }
    }

    /// Whether a line of the tool's standard error fits one of the patterns, the tool's name before
    /// it or not. A pattern is that of a whole line: `*` is any text.
    pub fn prints(&self, patterns: &[&str], line: &str) -> bool {
        let named = line.strip_prefix(self.name);
        let line = named
            .and_then(|rest| rest.strip_prefix(": "))
            .unwrap_or(line);
        patterns.iter().any(|pattern| fits(pattern, line))
    }

    /// Begins a call. Without the tool: an error that names the package to install.
    pub fn call(&self, confinement: Confinement) -> Result<Call> {
        let program = find(self.name).ok_or_else(|| {
            Error::known(
                ErrorKind::Unsupported,
                format!(
                "this needs {0}, which is not installed: it is in the package {1} (apt-get install \
                 {1})",
                self.name, self.package
            ),
            )
        })?;
        Ok(Call {
            tool: *self,
            launch: clean_launch(&program),
            files: (confinement == Confinement::Sandboxed).then(|| ProgramFiles {
                program,
                reads: QUESTIONS.map(PathBuf::from).to_vec(),
                ..ProgramFiles::default()
            }),
            input: Vec::new(),
            in_place: false,
            confined: false,
            progress: false,
            shown: false,
            names: Vec::new(),
        })
    }
}

/// A file with a file system or a disk, for tools that change it.
pub struct ToolFile {
    /// Path of the file.
    pub path: PathBuf,
    /// It is the image itself: a tool that stops half-way would leave it half changed.
    pub in_place: bool,
}

impl AsRef<OsStr> for ToolFile {
    fn as_ref(&self) -> &OsStr {
        self.path.as_os_str()
    }
}

/// One run of a tool.
pub struct Call {
    tool: Tool,
    launch: Launch,
    /// All files that it can use; `None`: no sandbox.
    files: Option<ProgramFiles>,
    input: Vec<u8>,
    in_place: bool,
    /// Do not run the tool without Landlock.
    confined: bool,
    /// Standard output shows the tool's progress.
    progress: bool,
    shown: bool,
    names: Vec<(String, String)>,
}

/// How a tool ended.
pub struct Ended {
    tool: Tool,
    status: ExitStatus,
    /// Standard output of the tool, then its standard error. A tool prints its errors there.
    pub output: Vec<u8>,
    /// The offset at which standard error begins in it.
    errors: usize,
    /// Whether the output that was to be shown was.
    pub shown: Result<()>,
}

impl Call {
    /// Adds one argument.
    pub fn argument(mut self, word: impl AsRef<OsStr>) -> Self {
        self.launch = self.launch.argument(word);
        self
    }

    /// Adds several arguments.
    pub fn arguments<I: IntoIterator>(mut self, words: I) -> Self
    where
        I::Item: AsRef<OsStr>,
    {
        self.launch = self.launch.arguments(words);
        self
    }

    /// Sets a variable of the tool's environment.
    pub fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.launch = self.launch.variable(name, value);
        self
    }

    /// Lets the tool read a file, or everything below a directory.
    pub fn reads(mut self, path: impl AsRef<Path>) -> Self {
        let list = self.files.iter_mut().map(|files| &mut files.reads);
        list.for_each(|list| list.push(path.as_ref().to_owned()));
        self
    }

    /// Lets the tool read a tree with all attributes that this process could read.
    pub fn packs(mut self, tree: impl AsRef<Path>) -> Self {
        if let Some(files) = &mut self.files {
            files.attributes = true;
            // The capability for that also gives access to the memory of other processes.
            files.reads.retain(|path| path != Path::new("/proc"));
        }
        self.reads(tree)
    }

    /// Lets the tool change a file, or everything below a directory.
    pub fn writes(mut self, path: impl AsRef<Path>) -> Self {
        let list = self.files.iter_mut().map(|files| &mut files.writes);
        list.for_each(|list| list.push(path.as_ref().to_owned()));
        self
    }

    /// Lets the tool read this, and of the host nothing else besides programs and libraries.
    pub fn reads_only(mut self, path: impl AsRef<Path>) -> Self {
        self.confined = true;
        if let Some(files) = &mut self.files {
            files.reads = vec![path.as_ref().to_owned()];
        }
        self
    }

    /// Shows the tool's standard output on standard error as it comes.
    pub fn progress(mut self, yes: bool) -> Self {
        self.progress = yes;
        self
    }

    /// As [`Call::writes`]. A tool that changes an image in place is not interrupted.
    pub fn changes(mut self, file: &ToolFile) -> Self {
        self.in_place |= file.in_place;
        self.writes(&file.path)
    }

    /// Standard input of the tool; empty by default.
    pub fn input(mut self, input: Vec<u8>) -> Self {
        self.input = input;
        self
    }

    /// Shows the output while the tool runs.
    pub fn shown(mut self, yes: bool) -> Self {
        self.shown = yes;
        self
    }

    /// Replaces a path in the tool's output by the user's name for the file.
    pub fn naming(mut self, path: &Path, shown: &str) -> Self {
        self.names
            .push((path.display().to_string(), shown.to_owned()));
        self
    }

    /// Runs the tool. An interrupt of this process also ends the tool, unless the tool works in
    /// place: it has a process group of its own, which no signal of a terminal reaches.
    pub fn run(self) -> Result<Ended> {
        let name = self.tool.name;
        let failed = |error| Error::failed(format!("cannot run {name}"), &error);
        let interrupted = || Error::Interrupted(format!("{name}: interrupted"));
        if is_asked() {
            return Err(interrupted());
        }
        let _guard = Guard::new();
        let stdin = standard_input(&self.input).map_err(failed)?;
        let stdout = if self.progress {
            Stdio::from(io::stderr())
        } else {
            Stdio::piped()
        };
        let launch = self.launch.stdin(stdin).stdout(stdout);
        let launch = launch.stderr(Stdio::piped());
        let started = restricted(launch, self.files, self.confined)
            .start()
            .map_err(failed)?;
        let listener = || Listener {
            output: Vec::new(),
            shown: self.shown,
            failed: None,
            names: &self.names,
        };
        let (mut usual, mut errors) = (listener(), listener());
        let mut interrupt = ToolInterrupt {
            name,
            in_place: self.in_place,
            noticed: false,
        };
        let status = started.attend(
            &[],
            |pipe| usual.listen(pipe),
            |pipe| errors.listen(pipe),
            |tool| interrupt.look(tool),
        );
        let status = status.map_err(failed)?;
        if interrupt.noticed && !self.in_place {
            return Err(interrupted());
        }
        let shown = match usual.failed.or(errors.failed) {
            Some(error) => Err(Error::of_output("standard output", &error)),
            None => Ok(()),
        };
        Ok(Ended {
            tool: self.tool,
            status,
            shown,
            errors: usual.output.len(),
            output: [usual.output, errors.output].concat(),
        })
    }

    /// Runs the tool, which must succeed. Reports its remarks.
    pub fn succeed(self, what: &str) -> Result<Ended> {
        let ended = self.run()?;
        if ended.status.success() {
            ended.warn_of_remarks();
            Ok(ended)
        } else {
            Err(ended.failure(what))
        }
    }
}

/// Whether the user, or a limit of the calling thread, wants to stop.
fn is_asked() -> bool {
    signals::asked() || stopped().is_some()
}

/// A file with these bytes. A write to a pipe would raise SIGPIPE once the tool has ended, and not
/// every program that uses a library ignores that.
fn standard_input(input: &[u8]) -> io::Result<Stdio> {
    if input.is_empty() {
        return Ok(Stdio::null());
    }
    let mut file = tempfile::tempfile()?;
    file.write_all(input)?;
    file.rewind()?;
    Ok(file.into())
}

/// The action of an interrupt on a running tool.
struct ToolInterrupt {
    name: &'static str,
    in_place: bool,
    /// There was one.
    noticed: bool,
}

impl ToolInterrupt {
    /// Ends the tool after an interrupt, unless that would leave an image half changed.
    fn look(&mut self, tool: &Process) {
        if self.noticed || !is_asked() {
            return;
        }
        self.noticed = true;
        if self.in_place {
            let name = self.name;
            warn(format!(
                "interrupted: waiting for {name}, which changes the image and would leave it half \
                 changed"
            ));
        } else {
            // It has ended by now, or ends now.
            drop(tool.signal_group(libc::SIGKILL));
        }
    }
}

/// The program ends with this process, since without this process nobody has the image locked. Only
/// its owner may use files that it makes.
fn restricted(launch: Launch, files: Option<ProgramFiles>, confined: bool) -> Launch {
    let launch = launch.ends_with_parent().private_files().own_group();
    let Some(files) = files else {
        return launch;
    };
    launch.rights(move || {
        if shut_in(&files)? || !confined {
            Ok(())
        } else {
            Err(io::Error::other(
                "this host cannot sandbox it (no Landlock); convert the image yourself, if you \
                 trust it",
            ))
        }
    })
}

/// A line without blanks before and after it.
fn trimmed(line: &[u8]) -> &[u8] {
    let full = |byte: &u8| !byte.is_ascii_whitespace();
    let start = line.iter().position(full).unwrap_or(line.len());
    let end = line.iter().rposition(full).map_or(start, |last| last + 1);
    &line[start..end]
}

/// The lines of a tool's output that have any text.
fn lines(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output
        .split(|byte| matches!(byte, b'\n' | b'\r'))
        .map(trimmed)
        .filter(|line| !line.is_empty())
}

/// Collects the output of a tool on one of its pipes.
struct Listener<'a> {
    output: Vec<u8>,
    shown: bool,
    /// Why a line could not be shown. The tool goes on.
    failed: Option<io::Error>,
    names: &'a [(String, String)],
}

impl Listener<'_> {
    fn listen(&mut self, pipe: impl Read) {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        // A line without end is cut into pieces.
        while matches!(
            (&mut pipe).take(1 << 16).read_until(b'\n', &mut line),
            Ok(length) if length > 0
        ) {
            self.take(&line);
            line.clear();
        }
    }

    fn take(&mut self, line: &[u8]) {
        let mut line = line.to_vec();
        for (path, shown) in self.names {
            line = String::from_utf8_lossy(&line)
                .replace(path, shown)
                .into_bytes();
        }
        if self.shown && self.failed.is_none() {
            self.failed = front().tool_line(&escaped(trimmed(&line))).err();
        }
        if self.output.len() + line.len() > KEPT {
            // Keep the first lines, and the output from here on.
            let end = self.output.len().min(KEPT / 2);
            self.output.drain(end.min(KEPT / 4)..end);
        }
        self.output.extend_from_slice(&line);
    }
}

impl Ended {
    /// The exit code; `None` if a signal ended the tool.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The lines of the tool on standard error besides its usual chatter, with its name before
    /// each line.
    pub fn remarks(&self) -> Vec<String> {
        let name = self.tool.name;
        let chatter = CHATTER.iter().filter(|(tool, _)| *tool == name);
        let chatter: Vec<&str> = chatter.flat_map(|(_, lines)| *lines).copied().collect();
        lines(&self.output[self.errors..])
            .map(escaped)
            .filter(|line| !self.tool.prints(&chatter, line))
            .map(|line| {
                if line.starts_with(&format!("{name}: ")) {
                    line
                } else {
                    format!("{name}: {line}")
                }
            })
            .collect()
    }

    /// Reports the remarks of a tool that ended with success.
    pub fn warn_of_remarks(&self) {
        for remark in self.remarks() {
            warn(format!("warning: {remark}"));
        }
    }

    /// An error with the first and the last lines of the tool's output.
    pub fn failure(&self, what: &str) -> Error {
        if matches!(self.status.signal(), Some(libc::SIGINT | libc::SIGTERM)) {
            return Error::Interrupted(format!("{what}: interrupted"));
        }
        let end = match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("ended with {code}"),
            (None, signal) => format!("was ended by signal {}", signal.unwrap_or(0)),
        };
        let lines: Vec<&[u8]> = lines(&self.output).collect();
        let shown = |line: &&[u8]| format!("\n  {}: {}", self.tool.name, escaped(line));
        let text: String = match lines.len().checked_sub(FIRST + LAST) {
            None | Some(0) => lines.iter().map(shown).collect(),
            Some(left_out) => {
                let first = lines.iter().take(FIRST).map(shown);
                let gap = format!("\n  ({left_out} more lines)");
                let last = lines.iter().skip(FIRST + left_out).map(shown);
                first.chain([gap]).chain(last).collect()
            }
        };
        Error::Failed(format!("{what}: {} {end}{text}", self.tool.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard_error::Notes;

    const SHELL: Tool = Tool::new("sh", "dash");

    #[test]
    fn output_and_code() {
        let call = SHELL
            .call(Confinement::default())
            .unwrap()
            .arguments(["-c", "cat; echo err >&2; exit 3"]);
        let ended = call.input(b"in\n".to_vec()).run().unwrap();
        assert_eq!(ended.code(), Some(3));
        let text = String::from_utf8(ended.output.clone()).unwrap();
        assert!(text.contains("in\n") && text.contains("err\n"));
        let Error::Failed(message) = ended.failure("it") else {
            panic!("a failure");
        };
        assert!(
            message.starts_with("it: sh ended with 3\n  sh: "),
            "{message}"
        );
    }

    #[test]
    fn the_last_line_of_much_output_is_shown() {
        let call = SHELL.call(Confinement::default()).unwrap();
        let script = "for i in 1 2 3 4 5 6 7 8 9 10; do echo line $i; done; exit 1";
        let ended = call.arguments(["-c", script]).run().unwrap();
        let Error::Failed(message) = ended.failure("it") else {
            panic!("a failure");
        };
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(lines[1..3], ["  sh: line 1", "  sh: line 2"]);
        assert_eq!(lines[5..7], ["  (2 more lines)", "  sh: line 7"]);
        assert_eq!(lines[9..], ["  sh: line 10"]);
    }

    /// The order in which the two pipes are read does not matter.
    #[test]
    fn errors_come_last() {
        let call = SHELL.call(Confinement::default()).unwrap();
        let script = "echo wrong >&2; for i in 1 2 3 4 5 6 7 8 9 10; do echo step $i; done; exit 1";
        let ended = call.arguments(["-c", script]).run().unwrap();
        let Error::Failed(message) = ended.failure("it") else {
            panic!("a failure");
        };
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(lines[1..3], ["  sh: step 1", "  sh: step 2"]);
        assert_eq!(lines[8..], ["  sh: step 10", "  sh: wrong"]);
    }

    fn remarks_of(name: &'static str, errors: &str) -> Vec<String> {
        let ended = Ended {
            tool: Tool::new(name, "package"),
            status: ExitStatus::from_raw(0),
            output: format!("mkfs.fat 4.2\n{errors}").into_bytes(),
            errors: 13,
            shown: Ok(()),
        };
        ended.remarks()
    }

    #[test]
    fn remarks_are_reported_and_chatter_is_not() {
        let text = "\nRead this.\nmkswap: x: insecure permissions 0644, fix with: chmod 0600 x\n";
        assert_eq!(remarks_of("mkswap", text), ["mkswap: Read this."]);
        let remarks = remarks_of("mke2fs", text);
        assert!(remarks[1].starts_with("mke2fs: mkswap: x: insecure permissions 0644"));
        let call = SHELL.call(Confinement::default()).unwrap();
        let notes = Notes::default();
        let script = "echo usual; echo odd >&2";
        notes.collect(|| call.arguments(["-c", script]).succeed("it").unwrap());
        assert_eq!(notes.lines(), ["warning: sh: odd"]);
    }

    /// Harmful lines may have the words of harmless ones in them: in the names of files, too.
    #[test]
    fn chatter_is_whole_lines() {
        for (tool, line) in [
            ("mkntfs", "forced anyway. Hope /etc/mtab is incorrect."),
            (
                "xorriso",
                "libisofs: SORRY : Cannot read /xorriso : NOTE : x",
            ),
            (
                "mksquashfs",
                "Failed to read file Unrecognised xattr prefix system.posix_acl_x",
            ),
            (
                "mkswap",
                "cannot write x. Use --verbose for more details. Sorry.",
            ),
            (
                "sfdisk",
                "The table is lost, but will be corrected by write.",
            ),
            ("debugfs", "ea_set: no room for debugfs 1.47.0 (5-Feb-2023)"),
        ] {
            assert_eq!(remarks_of(tool, line), [format!("{tool}: {line}")]);
        }
        assert!(remarks_of("mkntfs", "mkntfs forced anyway.").is_empty());
        assert_eq!(
            remarks_of(
                "mkntfs",
                "mkntfs forced anyway. Hope /etc/mtab is incorrect."
            )
            .len(),
            1
        );
    }

    #[test]
    fn patterns_of_lines() {
        for (pattern, line) in [
            ("a", "a"),
            ("a*", "a"),
            ("*a", "ba"),
            ("a*b*c", "a--b--c"),
            ("a * c", "a b c"),
            ("*", ""),
        ] {
            assert!(fits(pattern, line), "{pattern} {line}");
        }
        for (pattern, line) in [
            ("a", "ab"),
            ("a*", "ba"),
            ("*a", "ab"),
            ("a*b*c", "a--c--b"),
            ("ab*bc", "abc"),
        ] {
            assert!(!fits(pattern, line), "{pattern} {line}");
        }
    }

    #[test]
    fn the_environment_is_clean() {
        let ended = SHELL
            .call(Confinement::default())
            .unwrap()
            .arguments(["-c", "env"])
            .run()
            .unwrap();
        let text = String::from_utf8(ended.output).unwrap();
        assert!(
            !text.contains("CARGO") && text.contains("LC_ALL=C\n"),
            "{text}"
        );
    }

    #[test]
    fn a_missing_tool_names_its_package() {
        let Err(error) = Tool::new("no-such-tool", "its-package").call(Confinement::default())
        else {
            panic!("there is no such tool");
        };
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let message = error.message().unwrap();
        assert!(message.contains("apt-get install its-package"), "{message}");
    }
}
