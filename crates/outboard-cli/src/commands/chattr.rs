// SPDX-License-Identifier: GPL-2.0-only
//! `outboard chattr`.

use super::descend::Descend;
use super::lsattr::{flags_of, open, FLAGS};
use clap::Args;
use outboard_error::format::escaped;
use outboard_error::{Error, Result};
use outboard_volume::session::Session;
use std::ffi::OsString;

/// Change the flags of files in an image (immutable, append only...)
///
/// MODE is +, - or =, and letters as lsattr shows them: aAcCdDeFijmPsStTux. It may have several
/// parts, as in +a-d. "=" sets these flags and clears all others except e.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard chattr +i disk.img:/etc/resolv.conf\
                        \n  outboard chattr -R -i disk.img:/etc")]
pub struct ChattrArgs {
    /// The change, as in +i
    #[arg(value_name = "MODE", allow_hyphen_values = true)]
    pub mode: String,
    /// The files: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// Include everything below directories
    #[arg(short = 'R')]
    pub recursive: bool,
}

/// A change of a file's flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    keep: u32,
    set: u32,
}

fn bit(letter: char) -> Option<u32> {
    let flag = FLAGS.iter().find(|flag| flag.letter == letter)?;
    flag.changeable.then_some(flag.bit)
}

/// All that "=" takes away. A file is not moved to other blocks only because `e` is not named.
fn changeable() -> u32 {
    let flags = FLAGS
        .iter()
        .filter(|flag| flag.changeable && flag.letter != 'e');
    flags.fold(0, |all, flag| all | flag.bit)
}

impl Change {
    fn parse(mode: &str) -> Result<Self> {
        let wrong = |why: &str| {
            let shown = escaped(mode.as_bytes());
            Error::Usage(format!("{shown} makes no sense: {why}"))
        };
        let mut change = Self {
            keep: u32::MAX,
            set: 0,
        };
        let mut sign = None;
        for letter in mode.chars() {
            if matches!(letter, '+' | '-' | '=') {
                sign = Some(letter);
                if letter == '=' {
                    change.keep &= !changeable();
                    change.set = 0;
                }
                continue;
            }
            let bit = bit(letter).ok_or_else(|| {
                wrong(&format!(
                    "{} is no flag that can be changed",
                    letter.escape_default()
                ))
            })?;
            match sign {
                Some('-') => {
                    change.keep &= !bit;
                    change.set &= !bit;
                }
                Some(_) => change.set |= bit,
                None => return Err(wrong("it begins with +, - or =")),
            }
        }
        match sign {
            Some(_) => Ok(change),
            None => Err(wrong("it begins with +, - or =")),
        }
    }

    fn of(self, flags: u32) -> u32 {
        flags & self.keep | self.set
    }
}

pub fn run(options: &ChattrArgs, session: &mut Session) -> Result<()> {
    let change = Change::parse(&options.mode)?;
    let descend = Descend {
        write: true,
        recursive: options.recursive,
        follow: false,
    };
    descend.run(session, &options.places, |found| {
        let directory = found.kind() == libc::S_IFDIR;
        if options.recursive && !directory && found.kind() != libc::S_IFREG {
            return Ok(());
        }
        let old = flags_of(found)?;
        let mut new = change.of(old);
        if !directory {
            new &= !bit('D').unwrap_or(0);
        }
        if new == old {
            return Ok(());
        }
        open(found)
            .and_then(|file| file.set_inode_flags(new))
            .map_err(|error| found.failed("change the flags of", &error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        let of = |mode: &str, flags| Change::parse(mode).map(|change| change.of(flags));
        assert_eq!(of("+i", 0x8_0000), Ok(0x8_0010));
        assert_eq!(of("-ia", 0x8_0070), Ok(0x8_0040));
        assert_eq!(of("+a-i", 0x10), Ok(0x20));
        assert_eq!(of("=A", 0x8_1010), Ok(0x8_1080));
        assert_eq!(of("=", 0x30), Ok(0));
        for bad in ["", "i", "+Z", "+I", "+\u{1b}"] {
            assert!(Change::parse(bad).is_err(), "{bad}");
        }
    }
}
