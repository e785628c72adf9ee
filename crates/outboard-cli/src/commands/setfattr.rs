// SPDX-License-Identifier: GPL-2.0-only
//! `outboard setfattr`.

use super::descend::Descend;
use super::dump::Dump;
use super::writes_images;
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use clap::Args;
use outboard_error::format::escaped;
use outboard_error::{Error, Result};
use outboard_sandbox::HostAccess;
use outboard_volume::octal::unquote;
use outboard_volume::session::Session;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Set and remove extended attributes of files in an image
///
/// A value that begins with 0x is hexadecimal, one that begins with 0s is base64. In other values,
/// \ooo is the byte with this octal number.
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:\
                  \n  outboard setfattr -n user.origin -v build7 disk.img:/srv/file\
                  \n  outboard setfattr -x user.origin disk.img:/srv/file\
                  \n  outboard setfattr --restore attributes.txt disk.img:/"
)]
pub struct SetfattrArgs {
    /// The files; with --restore, the directory to which the paths in FILE are relative
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// Set this attribute
    #[arg(short, long, value_name = "NAME", required_unless_present_any = ["remove", "restore"])]
    pub name: Option<OsString>,
    /// Its value [default: empty]
    #[arg(
        short,
        long,
        value_name = "VALUE",
        requires = "name",
        allow_hyphen_values = true
    )]
    pub value: Option<OsString>,
    /// Remove this attribute
    #[arg(short = 'x', long, value_name = "NAME", conflicts_with = "name")]
    pub remove: Option<OsString>,
    /// Change a symbolic link itself, not its target
    #[arg(short = 'h', long)]
    pub no_dereference: bool,
    /// Set what a file of the host says, as "getfattr -d" wrote it; "-": standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "remove"])]
    pub restore: Option<OsString>,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// The name of an attribute, checked.
pub fn attribute(name: &OsStr) -> Result<CString> {
    let bytes = name.as_bytes();
    let dot = bytes.iter().position(|&byte| byte == b'.');
    let good = dot.is_some_and(|dot| dot > 0 && dot + 1 < bytes.len());
    let name = CString::new(bytes).ok().filter(|_| good);
    name.ok_or_else(|| {
        let shown = escaped(bytes);
        Error::Usage(format!(
            "{shown} is no attribute's name: they are as in user.NAME"
        ))
    })
}

/// The bytes that a written value means.
pub fn decode(text: &[u8]) -> Result<Vec<u8>> {
    let wrong = || Error::Usage(format!("the value {} makes no sense", escaped(text)));
    match text {
        [b'0', b'x' | b'X', digits @ ..] => hex::decode(digits).map_err(|_| wrong()),
        [b'0', b's' | b'S', base64 @ ..] => STANDARD.decode(base64).map_err(|_| wrong()),
        [b'"', quoted @ .., b'"'] => Ok(plain(quoted)),
        _ => Ok(plain(text)),
    }
}

/// Text in which a backslash may stand before a quote, itself, or an octal number of up to three
/// digits.
fn plain(mut text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    while let [first, rest @ ..] = text {
        let digits = rest
            .iter()
            .take(3)
            .take_while(|digit| matches!(digit, b'0'..=b'7'));
        let number = digits
            .clone()
            .fold(0u32, |number, digit| number * 8 + u32::from(digit - b'0'));
        match (first, rest, digits.count()) {
            (b'\\', [special @ (b'"' | b'\\'), rest @ ..], _) => {
                bytes.push(*special);
                text = rest;
            }
            (b'\\', _, length @ 1..) if number <= 0xff => {
                bytes.push(number as u8);
                text = &rest[length..];
            }
            _ => {
                bytes.push(*first);
                text = rest;
            }
        }
    }
    bytes
}

impl SetfattrArgs {
    pub fn host_access(&self) -> HostAccess {
        let mut access = writes_images(&self.places);
        access.reads.extend(self.restore.iter().map(PathBuf::from));
        access
    }
}

pub fn run(options: &SetfattrArgs, session: &mut Session) -> Result<()> {
    if let Some(file) = &options.restore {
        return restore(options, session, file);
    }
    let value = decode(options.value.as_deref().unwrap_or_default().as_bytes())?;
    let set = options.name.as_deref().map(attribute).transpose()?;
    let remove = options.remove.as_deref().map(attribute).transpose()?;
    let descend = Descend {
        write: true,
        recursive: false,
        follow: !options.no_dereference,
    };
    descend.run(session, &options.places, |found| {
        if let Some(name) = &set {
            let done = found.file.set_xattr(name, &value);
            done.map_err(|error| found.failed(&format!("set {} of", shown(name)), &error))?;
        }
        if let Some(name) = &remove {
            let done = found.file.remove_xattr(name);
            done.map_err(|error| found.failed(&format!("remove {} of", shown(name)), &error))?;
        }
        Ok(())
    })
}

fn shown(name: &CString) -> String {
    escaped(name.to_bytes())
}

/// Sets what the lines of a dump say.
fn restore(options: &SetfattrArgs, session: &mut Session, file: &OsStr) -> Result<()> {
    let dump = Dump::read(file)?;
    let follow = !options.no_dereference;
    dump.restore(session, &options.places, follow, |found, section| {
        for (number, line) in &section.lines {
            if line.starts_with(b"#") {
                continue;
            }
            let done = assignment(line).and_then(|(name, value)| {
                let done = found.file.set_xattr(&name, &value);
                done.map_err(|error| found.failed(&format!("set {} of", shown(&name)), &error))
            });
            done.map_err(|error| dump.at(*number, error))?;
        }
        Ok(())
    })
}

/// "name=value" of a dump.
fn assignment(line: &[u8]) -> Result<(CString, Vec<u8>)> {
    let equals = line.iter().position(|&byte| byte == b'=');
    let (name, value) = line.split_at(equals.unwrap_or(line.len()));
    let name = attribute(OsStr::from_bytes(&unquote(name)))?;
    Ok((name, decode(value.strip_prefix(b"=").unwrap_or_default())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        for (text, value) in [
            ("abc", b"abc".as_slice()),
            ("0x4142ff", b"AB\xff"),
            ("0sYQ==", b"a"),
            ("\"a\\\"b\\\\101\\101\\7\"", b"a\"b\\101A\x07"),
            ("\"", b"\""),
            ("", b""),
        ] {
            assert_eq!(decode(text.as_bytes()), Ok(value.to_vec()), "{text}");
        }
        for bad in ["0x4", "0xzz", "0s!"] {
            assert!(decode(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn names() {
        assert!(attribute(OsStr::new("user.a")).is_ok());
        for bad in ["user", ".a", "user.", ""] {
            assert!(attribute(OsStr::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn assignments() {
        let (name, value) = assignment(b"user.a\\075b=\"c=d\"").unwrap();
        assert_eq!(
            (name.to_bytes(), value.as_slice()),
            (b"user.a=b".as_slice(), b"c=d".as_slice())
        );
    }
}
