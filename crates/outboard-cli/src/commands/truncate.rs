// SPDX-License-Identifier: GPL-2.0-only
//! `outboard truncate`.

use crate::commands::each::each_place;
use clap::Args;
use outboard::Tree;
use outboard_error::size::{parse_length, parse_size};
use outboard_error::{Error, Result};
use outboard_volume::address::Place;
use outboard_volume::session::Session;
use std::ffi::OsString;
use std::io;

/// Set the size of files in an image
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard truncate -s 0 disk.img:/var/log/syslog\
                        \n  outboard truncate -s +1M disk.img@1:/swapfile\
                        \n  outboard truncate -s %4K disk.img:/blocks")]
pub struct TruncateArgs {
    /// The files: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// The new size, as in 4096 or 10M. With a prefix, a change of the size: + more, - less, < at
    /// most, > at least, / down to a multiple, % up to a multiple
    #[arg(
        short,
        long,
        value_name = "[PREFIX]SIZE",
        allow_hyphen_values = true,
        value_parser = NewSize::parse
    )]
    pub size: NewSize,
    /// Make no files
    #[arg(short = 'c', long)]
    pub no_create: bool,
}

/// A size, or a change of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewSize {
    Exactly(u64),
    More(u64),
    Less(u64),
    AtMost(u64),
    AtLeast(u64),
    RoundedDown(u64),
    RoundedUp(u64),
}

impl NewSize {
    fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut characters = text.chars();
        let prefix = characters.next();
        let size = characters.as_str();
        match prefix {
            Some('+') => parse_length(size).map(Self::More),
            Some('-') => parse_length(size).map(Self::Less),
            Some('<') => parse_length(size).map(Self::AtMost),
            Some('>') => parse_length(size).map(Self::AtLeast),
            Some('/') => parse_size(size).map(Self::RoundedDown),
            Some('%') => parse_size(size).map(Self::RoundedUp),
            _ => parse_length(text).map(Self::Exactly),
        }
    }

    fn of(self, now: u64) -> io::Result<u64> {
        let size = match self {
            Self::Exactly(size) => Some(size),
            Self::More(size) => now.checked_add(size),
            Self::Less(size) => Some(now.saturating_sub(size)),
            Self::AtMost(size) => Some(now.min(size)),
            Self::AtLeast(size) => Some(now.max(size)),
            Self::RoundedDown(size) => Some(now / size * size),
            Self::RoundedUp(size) => now.checked_next_multiple_of(size),
        };
        let too_large = || io::Error::from_raw_os_error(libc::EFBIG);
        let possible = size.filter(|size| i64::try_from(*size).is_ok());
        possible.ok_or_else(too_large)
    }
}

pub fn run(options: &TruncateArgs, session: &mut Session) -> Result<()> {
    each_place(session, &options.places, true, |session, place, _| {
        let id = session.open(place, true)?;
        truncate(options, session.tree(id), place, session.umask())
            .map_err(|error| Error::of_file("cannot set the size of", place.operand(), &error))
    })
}

fn truncate(options: &TruncateArgs, tree: &Tree, place: &Place, umask: u32) -> io::Result<()> {
    // A FIFO is not waited for.
    let mut flags = libc::O_WRONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
    if !options.no_create {
        flags |= libc::O_CREAT;
    }
    match tree.open_fd(place.path(), flags, 0o666 & !umask) {
        Ok(file) => {
            let now = file.stat()?.st_size.max(0) as u64;
            let done = file.truncate(options.size.of(now)?);
            if done.is_err() {
                // Some file systems fill what is missing, as far as there is room.
                let _ = file.truncate(now);
            }
            done.and(file.close())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && options.no_create => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, now, then) in [
            ("0", 5, 0),
            ("10KB", 5, 10_000),
            ("+1K", 5, 1029),
            ("-5", 3, 0),
            ("<4", 5, 4),
            ("<4", 3, 3),
            (">4", 3, 4),
            (">4", 5, 5),
            ("/4", 7, 4),
            ("%4", 7, 8),
            ("%4", 8, 8),
        ] {
            let found = NewSize::parse(text).unwrap().of(now);
            assert_eq!(found.unwrap(), then, "{text} of {now}");
        }
        for bad in ["", "+", "--1", "/0", "%0", "x", "+x", "12x"] {
            assert!(NewSize::parse(bad).is_err(), "{bad}");
        }
        for large in [
            NewSize::More(u64::MAX),
            NewSize::Exactly(1 << 63),
            NewSize::RoundedUp(u64::MAX),
        ] {
            assert!(large.of(1).is_err(), "{large:?}");
        }
    }
}
