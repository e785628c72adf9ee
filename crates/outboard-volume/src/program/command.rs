// SPDX-License-Identifier: GPL-2.0-only
//! What a user says of a program: its words, its environment, its user, its terminal.

use crate::host_bind::HostBind;
use outboard::{ProgramUser, Tree};
use outboard_error::{Error, ErrorKind, Result};
use outboard_protocol::frames::ProgramRequest;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// The exit code of failures of the command itself, as of env(1) and chroot(1).
pub const FAILED: u8 = 125;
/// The program cannot be run.
const NOT_RUN: u8 = 126;
/// There is no such program.
const NOT_FOUND: u8 = 127;

/// The directories in which a program is looked for if nobody says otherwise.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Finds a user, given by numbers or names, in the files of a volume, whose name is for messages.
pub type FindLogin = fn(&[u8], &Tree, &str) -> Result<Login>;

/// A program with its arguments.
#[derive(Clone)]
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
    /// The user, by numbers or names of the volume; `None`: root.
    pub user: Option<OsString>,
    /// Finds the user.
    pub find_login: FindLogin,
    /// The number of the signal that it gets when this process is asked to end by SIGTERM; `None`:
    /// the same.
    pub stop_signal: Option<i32>,
    /// The program gets a terminal also if this process has none.
    pub wants_terminal: bool,
    /// The run ends when nobody has used it for a time.
    pub idle_exit: Option<IdleExit>,
}

/// When a run ends because nobody uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleExit {
    /// How long nobody has used it.
    pub time: Duration,
    /// TCP ports of the programs that the host's lead to.
    pub ports: Vec<u16>,
    /// UDP ports of the host lead to programs.
    pub has_udp: bool,
}

/// The user of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    pub user: ProgramUser,
    /// The home directory; `None`: the volume does not say.
    pub home: Option<OsString>,
}

impl ProgramCommand {
    /// The exit code for an error. One about the program itself has a code of its own.
    pub fn failure_code(&self, error: &Error) -> u8 {
        match error.kind() {
            _ if error.path() != Some(self.program.as_ref()) => FAILED,
            ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_RUN,
        }
    }

    /// The signal that the program gets in place of one for this process.
    pub(super) fn signal(&self, number: i32) -> i32 {
        match (number, self.stop_signal) {
            (libc::SIGTERM, Some(other)) => other,
            (number, _) => number,
        }
    }

    /// A further program, which differs from this one where the request says so.
    pub(super) fn further(&self, request: ProgramRequest) -> Self {
        let mut words = request.words.into_iter();
        let mut environment = self.environment.clone();
        environment.extend(request.environment);
        Self {
            program: words.next().unwrap_or_default(),
            arguments: words.collect(),
            environment,
            binds: Vec::new(),
            directory: request.directory.or_else(|| self.directory.clone()),
            user: request.user.or_else(|| self.user.clone()),
            find_login: self.find_login,
            stop_signal: None,
            wants_terminal: false,
            idle_exit: None,
        }
    }
}

/// The paths at which the program may be.
pub(super) fn candidates(
    program: &OsString,
    environment: &[(OsString, OsString)],
) -> Vec<OsString> {
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

/// The environment that a program gets first: the usual variables, then the others.
pub(super) fn environment(
    others: &[(OsString, OsString)],
    login: &Login,
) -> Vec<(OsString, OsString)> {
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
