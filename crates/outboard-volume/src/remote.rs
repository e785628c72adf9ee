// SPDX-License-Identifier: GPL-2.0-only
//! Names of file systems and disks that a server has, as in `nfs://server/export?vers=3`.
//!
//! | name | is |
//! |---|---|
//! | `nfs://HOST[:PORT]/EXPORT` | a directory of an NFS server |
//! | `smb://[USER@]HOST[:PORT]/SHARE[/DIRECTORY]` | a share of an SMB server; `cifs:` is an alias |
//! | `9p://[USER@]HOST[:PORT]/[TREE]` | a tree of a 9p server |
//! | `nbd://HOST[:PORT][/EXPORT]` | a disk of an NBD server |
//!
//! A query may follow, `?NAME=VALUE&...`: options of the kernel's driver. NBD has none.

use outboard_error::format::escaped;
use outboard_error::{Error, Hint, Result};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    Nfs,
    Smb,
    NineP,
    Nbd,
}

const SCHEMES: [(&str, Protocol); 5] = [
    ("nfs://", Protocol::Nfs),
    ("smb://", Protocol::Smb),
    ("cifs://", Protocol::Smb),
    ("9p://", Protocol::NineP),
    ("nbd://", Protocol::Nbd),
];

/// Most bytes of a name: longer ones fit no option of a mount.
const LONGEST: usize = 1024;

/// Options that this program sets itself, or that would put a secret into the command line.
const RESERVED: [&str; 18] = [
    "addr",
    "clientaddr",
    "credentials",
    "ip",
    "mountaddr",
    "pass",
    "passwd",
    "password",
    "password2",
    "port",
    "rfdno",
    "trans",
    "unc",
    "user",
    "username",
    "wfdno",
    "aname",
    "uname",
];

impl Protocol {
    /// The protocol of a name, and the length of its scheme. `None`: the name is a path.
    pub fn of(name: &[u8]) -> Option<(Self, usize)> {
        let mut schemes = SCHEMES.iter();
        let found = schemes.find(|(scheme, _)| name.starts_with(scheme.as_bytes()))?;
        Some((found.1, found.0.len()))
    }

    /// The port of a server that names none.
    pub fn port(self) -> u16 {
        match self {
            Self::Nfs => 2049,
            Self::Smb => 445,
            Self::NineP => 564,
            Self::Nbd => 10809,
        }
    }
}

/// Whether a name of a file is the name of something that a server has.
pub fn is_remote(file: &Path) -> bool {
    Protocol::of(file.as_os_str().as_bytes()).is_some()
}

/// The place where the name of a disk ends and the names of volumes on it begin: the first `@`
/// behind the host. `None`: it names no volume, or no disk.
pub fn selectors_at(name: &[u8]) -> Option<usize> {
    let (protocol, start) = Protocol::of(name)?;
    let slash = name[start..].iter().position(|&byte| byte == b'/')?;
    let rest = start + slash;
    let at = name[rest..].iter().position(|&byte| byte == b'@')?;
    (protocol == Protocol::Nbd).then_some(rest + at)
}

/// A file system or disk that a server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    pub protocol: Protocol,
    pub user: Option<String>,
    /// A name or an address, without brackets.
    pub host: String,
    pub port: Option<u16>,
    /// Without the slash in front.
    pub export: String,
    /// Options of the driver: names, and values if there are any.
    pub options: Vec<(String, Option<String>)>,
}

fn wrong(name: &[u8], why: &str) -> Error {
    Error::Usage(format!("{}: {why}", escaped(name)))
}

fn good_text(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() || c == ',')
}

/// `NAME` or `NAME=VALUE` of a query.
fn option(text: &str) -> std::result::Result<(String, Option<String>), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(good) {
        return Err(format!("\"{name}\" is no name of an option"));
    }
    if RESERVED.contains(&name) {
        return Err(format!(
            "option {name} is set by outboard: write user, host and port before the path, and the \
             password into a file{}",
            Hint::PasswordFile
        ));
    }
    Ok((name.to_owned(), value))
}

/// `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`.
fn host_and_port(text: &str) -> std::result::Result<(String, Option<u16>), String> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(inner) => inner
            .split_once(']')
            .ok_or("the address lacks its closing bracket")?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    if host.is_empty() {
        return Err("the host is missing: write nfs://server/export".to_owned());
    }
    if host.contains(['/', '\\', '%']) {
        return Err(format!("\"{host}\" is no name of a host"));
    }
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => None,
        Some(digits) => {
            let port = digits.parse().ok().filter(|&port: &u16| port != 0);
            Some(port.ok_or_else(|| format!("port \"{digits}\" is not between 1 and 65535"))?)
        }
        None => {
            return Err(format!(
                "\"{rest}\" stands behind the address: write a colon"
            ))
        }
    };
    Ok((host.to_owned(), port))
}

impl Remote {
    /// Parses the name of a file. `None`: it is a path of the host.
    pub fn of(file: &Path) -> Option<Result<Self>> {
        let name = file.as_os_str().as_bytes();
        let (protocol, start) = Protocol::of(name)?;
        let parsed = std::str::from_utf8(name)
            .map_err(|_| "it is not UTF-8".to_owned())
            .and_then(|text| {
                if name.len() <= LONGEST && good_text(text) {
                    Self::parse(protocol, &text[start..])
                } else {
                    Err("it is too long, or has a comma or a control character".to_owned())
                }
            });
        Some(parsed.map_err(|why| wrong(name, &why)))
    }

    fn parse(protocol: Protocol, text: &str) -> std::result::Result<Self, String> {
        let (text, query) = match text.split_once('?') {
            Some((text, query)) => (text, query.split('&').map(option).collect()),
            None => (text, Ok(Vec::new())),
        };
        let (authority, export) = text.split_once('/').unwrap_or((text, ""));
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user.to_owned()), place),
            None => (None, authority),
        };
        if user.as_ref().is_some_and(|user| user.contains(':')) {
            return Err(format!(
                "a command line is no place for a password: write it into a file{}",
                Hint::PasswordFile
            ));
        }
        if protocol == Protocol::Nbd && query.as_ref().is_ok_and(|words| !words.is_empty()) {
            return Err("a disk has no options behind a question mark".to_owned());
        }
        let takes_user = matches!(protocol, Protocol::Smb | Protocol::NineP);
        if user.is_some() && !takes_user {
            return Err("this protocol has no user before the host".to_owned());
        }
        let (host, port) = host_and_port(place)?;
        if protocol == Protocol::Smb && export.is_empty() {
            return Err("the share is missing: write smb://server/share".to_owned());
        }
        Ok(Self {
            protocol,
            user,
            host,
            port,
            export: export.to_owned(),
            options: query?,
        })
    }

    /// Whether it is a disk, and not a file system.
    pub fn is_disk(&self) -> bool {
        self.protocol == Protocol::Nbd
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(self.protocol.port())
    }

    /// Whether one port is enough. NFS 3 has several services, whose ports a further one tells.
    pub fn has_one_port(&self) -> bool {
        let version = self.nfs_version();
        self.protocol != Protocol::Nfs || version.is_some_and(|version| version.starts_with('4'))
    }

    /// The version of NFS that the user wants.
    pub fn nfs_version(&self) -> Option<&str> {
        ["vers", "nfsvers", "v"]
            .iter()
            .find_map(|name| self.option(name))
    }

    /// The value of an option.
    pub fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().find(|(known, _)| known == name)?;
        found.1.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Remote {
        Remote::of(Path::new(text)).unwrap().unwrap()
    }

    fn refused(text: &str) -> String {
        let error = Remote::of(Path::new(text)).unwrap().unwrap_err();
        error.message().unwrap().to_owned()
    }

    #[test]
    fn all_parts_of_a_name() {
        let found = parse("smb://ann@server:4450/share/dir?vers=3.0&noserverino");
        assert_eq!(found.protocol, Protocol::Smb);
        assert_eq!(found.user.as_deref(), Some("ann"));
        assert_eq!((found.host.as_str(), found.port()), ("server", 4450));
        assert_eq!(found.export, "share/dir");
        assert_eq!(found.option("vers"), Some("3.0"));
        assert_eq!(found.options[1], ("noserverino".to_owned(), None));
        let found = parse("nfs://[fd00::1]/export");
        assert_eq!((found.host.as_str(), found.port()), ("fd00::1", 2049));
        assert_eq!(parse("nbd://server").export, "");
        assert_eq!(parse("9p://h:1/a/b").export, "a/b");
        assert_eq!(parse("cifs://h/s").protocol, Protocol::Smb);
        assert!(Remote::of(Path::new("/nfs://x")).is_none());
        assert!(Remote::of(Path::new("disk.img")).is_none());
    }

    #[test]
    fn wrong_names_say_why() {
        for (text, why) in [
            ("nfs:///export", "the host is missing"),
            ("nfs://server:0/e", "port \"0\""),
            ("nfs://server:70000/e", "port \"70000\""),
            ("nfs://[::1/e", "closing bracket"),
            ("nfs://[::1]2/e", "write a colon"),
            ("nfs://ann@server/e", "no user"),
            ("smb://server", "the share is missing"),
            ("smb://ann:secret@server/s", "no place for a password"),
            ("smb://server/s?password=x", "the password into a file"),
            ("nfs://server/a,b", "a comma"),
            ("nfs://server/e?addr=1.2.3.4", "option addr"),
            ("nfs://server/e?=3", "no name of an option"),
            ("nbd://server?tls=x", "no options"),
            ("nbd://server/disk?", "no name of an option"),
        ] {
            assert!(refused(text).contains(why), "{text}: {}", refused(text));
        }
        assert!(!refused("smb://server/s?password=x").contains("=x is"));
    }

    #[test]
    fn only_disks_have_volumes() {
        assert_eq!(selectors_at(b"nbd://h/name@1"), Some(12));
        assert_eq!(selectors_at(b"nbd://h@1"), None);
        assert_eq!(selectors_at(b"nfs://h/name@1"), None);
        assert_eq!(selectors_at(b"disk@1"), None);
    }
}
