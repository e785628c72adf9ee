// SPDX-License-Identifier: GPL-2.0-only
//! Lines of scripts and of the shell: each is split into words as `sh` does it, and then understood
//! as the command line is.

use crate::commands::settings::Settings;
use crate::exit_code::{code_of, CommandStatus};
use clap::error::ErrorKind;
use outboard_error::{warn, Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_sandbox::HostAccess;
use outboard_volume::session::Session;
use std::ffi::OsString;
use std::fmt::Debug;
use std::io::{BufRead, Read};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStringExt;

/// Commands that are no part of others: they take standard input or the whole session.
const ALONE: [&str; 3] = ["run-script", "shell", "mount"];
/// Most bytes of a line.
const LONGEST: usize = 1 << 20;

/// A command that a line names.
pub trait LineCommand: Debug {
    /// The host's files and rights that the command uses.
    fn host_access(&self) -> HostAccess;

    /// Runs the command as a line of others.
    fn run_line(&self, session: &mut Session) -> std::result::Result<(), LineError>;
}

type ParsedLine = (Settings, Box<dyn LineCommand>);

/// The program's commands. The table of commands knows each of them; they know the table by this
/// alone.
pub struct CommandSet {
    /// The command line.
    pub grammar: fn() -> clap::Command,
    /// The command of a command line, and the shared options before it.
    pub parse: fn(&clap::ArgMatches) -> std::result::Result<ParsedLine, clap::Error>,
}

/// The words of a line; none if it is empty or a comment.
pub fn split(line: &[u8]) -> Result<Vec<OsString>> {
    let words = shlex::bytes::split(line).ok_or_else(|| {
        Error::Usage("a quote is not closed, or a backslash ends the line".into())
    })?;
    Ok(words.into_iter().map(OsString::from_vec).collect())
}

/// The command of these words. `grammar` is the command line's. `None`: help, which was printed.
pub fn understand(
    words: Vec<OsString>,
    grammar: clap::Command,
    commands: &CommandSet,
) -> Result<Option<Box<dyn LineCommand>>> {
    match parse(words, grammar, commands) {
        Ok(command) => Ok(Some(command)),
        Err(Problem::Help(error)) => {
            // Without a reader there is nobody to help.
            let _ = error.print();
            Ok(None)
        }
        Err(Problem::Wrong(error)) => Err(error),
    }
}

/// Why words are no command.
pub enum Problem {
    Help(clap::Error),
    Wrong(Error),
}

/// As [`understand`], but prints nothing.
pub fn parse(
    words: Vec<OsString>,
    grammar: clap::Command,
    commands: &CommandSet,
) -> std::result::Result<Box<dyn LineCommand>, Problem> {
    let matches = match grammar.no_binary_name(true).try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) if is_help(error.kind()) => return Err(Problem::Help(error)),
        Err(error) => return Err(Problem::Wrong(usage(&error))),
    };
    command_of(&matches, commands).map_err(Problem::Wrong)
}

fn command_of(matches: &clap::ArgMatches, commands: &CommandSet) -> Result<Box<dyn LineCommand>> {
    let (settings, command) = (commands.parse)(matches).map_err(|error| usage(&error))?;
    if settings != Settings::default() {
        return Err(Error::Usage(
            "a line cannot have shared options, which hold for all lines: give them to run-script \
             or shell itself"
                .to_owned(),
        ));
    }
    let name = matches.subcommand_name().unwrap_or_default();
    if ALONE.contains(&name) {
        return Err(Error::Usage(format!(
            "{name} cannot be used here: it is a command of its own"
        )));
    }
    Ok(command)
}

fn is_help(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
}

/// The error of a command line.
pub fn usage(error: &clap::Error) -> Error {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    Error::Usage(text.trim_end().to_owned())
}

/// Why a line failed.
#[derive(Debug, PartialEq, Eq)]
pub enum LineError {
    Error(Error),
    /// Its command has reported all, and ends with this exit code.
    Status(CommandStatus),
}

impl From<Error> for LineError {
    fn from(error: Error) -> Self {
        match error {
            Error::AlreadyReported | Error::ReaderGone => {
                Self::Status(CommandStatus(code_of(&error)))
            }
            error => Self::Error(error),
        }
    }
}

/// Lines that are run one after the other.
pub struct Lines<R> {
    /// For messages.
    pub name: String,
    pub reader: R,
    /// Lines that came before its first one.
    pub before: u64,
    /// Whether to report a failure and go on with the next line.
    pub keep_going: bool,
}

impl<R: BufRead> Lines<R> {
    /// Gives each line to `run`, until one fails or breaks.
    pub fn run(
        &mut self,
        interrupt: &Interrupt,
        mut run: impl FnMut(&[u8]) -> std::result::Result<ControlFlow<()>, LineError>,
    ) -> Result<()> {
        let mut failed = None;
        let mut number = self.before;
        while let Some(line) = self.next_line(number, interrupt)? {
            number += 1;
            match run(&line) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => break,
                Err(error @ LineError::Error(Error::Interrupted(_))) => {
                    return Err(self.at(number, error));
                }
                Err(error) if !self.keep_going => return Err(self.at(number, error)),
                Err(error) => {
                    let error = self.at(number, error);
                    warn(error.message().unwrap_or_default());
                    failed = Some(Error::AlreadyReported);
                }
            }
            if interrupt.asked() {
                let interrupted = Error::Interrupted("interrupted after this".to_owned());
                return Err(self.at(number, interrupted));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn next_line(&mut self, number: u64, interrupt: &Interrupt) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let mut limited = (&mut self.reader).take(LONGEST as u64);
        let read = limited.read_until(b'\n', &mut line);
        let length = read.map_err(|error| {
            if interrupt.asked() {
                let (name, next) = (&self.name, number + 1);
                let text = format!("{name}: interrupted while waiting for line {next}");
                return Error::Interrupted(text);
            }
            Error::failed(format!("cannot read {}", self.name), &error)
        })?;
        if length == LONGEST {
            let text = format!("the line is longer than {LONGEST} bytes");
            return Err(self.at(number + 1, Error::Usage(text)));
        }
        Ok((length > 0).then_some(line))
    }

    /// The error of a line, with the line's place.
    fn at(&self, number: u64, error: impl Into<LineError>) -> Error {
        let place = format!("{}:{number}", self.name);
        let error = match error.into() {
            LineError::Error(error) => error,
            LineError::Status(status) => {
                return Error::Failed(format!("{place}: failed with exit code {}", status.0));
            }
        };
        match error {
            Error::Usage(text) => Error::Usage(format!("{place}: {text}")),
            Error::Failed(text) => Error::Failed(format!("{place}: {text}")),
            Error::Known(failure) => Error::from(failure.after(place)),
            Error::Interrupted(text) => Error::Interrupted(format!("{place}: {text}")),
            // The kernel panicked, which the whole script ends with.
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Arguments, COMMANDS};

    fn parse(line: &str) -> Result<Option<Box<dyn LineCommand>>> {
        understand(split(line.as_bytes())?, Arguments::grammar(), &COMMANDS)
    }

    #[test]
    fn words() {
        let words = split(b"cat 'a b' c\\ d \"e'f\" # comment\n").unwrap();
        assert_eq!(words, ["cat", "a b", "c d", "e'f"]);
        assert!(split(b"  # nothing\n").unwrap().is_empty());
        assert!(split(b"cat 'a").is_err());
    }

    #[test]
    fn what_is_refused() {
        for (line, word) in [
            ("run-script x", "run-script"),
            ("shell x.img", "shell"),
            ("ls --ro x.img:/", "options"),
            ("--vcpus 2 ls x.img:/", "options"),
            ("nonsense", "nonsense"),
        ] {
            match parse(line) {
                Err(Error::Usage(text)) => assert!(text.contains(word), "{line}: {text}"),
                other => panic!("{line}: {other:?}"),
            }
        }
        let command = parse("ls x.img:/").unwrap().expect("a command");
        assert!(format!("{command:?}").starts_with("Ls("));
    }

    fn run(text: &str, keep_going: bool) -> (Vec<String>, Result<()>) {
        let mut seen = Vec::new();
        let mut lines = Lines {
            name: "s".to_owned(),
            reader: text.as_bytes(),
            before: 0,
            keep_going,
        };
        let done = lines.run(&Interrupt::default(), |line| {
            let line = String::from_utf8_lossy(line).trim().to_owned();
            seen.push(line.clone());
            match line.as_str() {
                "bad" => Err(Error::Failed("why".to_owned()).into()),
                "told" => Err(Error::AlreadyReported.into()),
                "end" => Ok(ControlFlow::Break(())),
                _ => Ok(ControlFlow::Continue(())),
            }
        });
        (seen, done)
    }

    #[test]
    fn the_first_failure_ends_it() {
        let (seen, done) = run("a\nbad\nb", false);
        assert_eq!(seen, ["a", "bad"]);
        assert_eq!(done, Err(Error::Failed("s:2: why".to_owned())));
        let (_, done) = run("a\ntold\n", false);
        let text = "s:2: failed with exit code 1".to_owned();
        assert_eq!(done, Err(Error::Failed(text)));
        let (seen, done) = run("a\nbad\nb\nend\nc\n", true);
        assert_eq!(seen, ["a", "bad", "b", "end"]);
        assert_eq!(done, Err(Error::AlreadyReported));
    }

    #[test]
    fn lines_are_limited() {
        let (seen, done) = run(&"x".repeat(LONGEST), true);
        assert!(seen.is_empty() && matches!(done, Err(Error::Usage(_))));
    }
}
