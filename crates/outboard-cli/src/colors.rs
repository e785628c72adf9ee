// SPDX-License-Identifier: GPL-2.0-only
//! Colours of names by the kind of file, as `ls` has them: from LS_COLORS.

use clap::ValueEnum;
use lscolors::{Indicator, LsColors};

/// When there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal
    Auto,
    Always,
    Never,
}

pub struct Colors(LsColors);

impl Colors {
    /// The colours of the environment, or `ls`'s own where it has none. Without the option there
    /// are colours on a terminal if the environment has them.
    pub fn new(when: Option<When>, terminal: bool) -> Option<Self> {
        let wanted = match when {
            Some(When::Always) => true,
            Some(When::Auto) => terminal,
            Some(When::Never) => false,
            None => terminal && std::env::var_os("LS_COLORS").is_some(),
        };
        wanted.then(|| Self(LsColors::from_env().unwrap_or_default()))
    }

    /// `shown` in the colour of a file with this name and mode.
    pub fn paint(&self, shown: Vec<u8>, name: &[u8], mode: u32) -> Vec<u8> {
        let kind = indicator(mode);
        let by_name = match kind {
            Indicator::RegularFile => self.0.style_for_str(&String::from_utf8_lossy(name)),
            _ => None,
        };
        let Some(style) = by_name.or_else(|| self.0.style_for_indicator(kind)) else {
            return shown;
        };
        let style = style.to_nu_ansi_term_style();
        let (prefix, suffix) = (style.prefix().to_string(), style.suffix().to_string());
        [prefix.as_bytes(), &shown, suffix.as_bytes()].concat()
    }
}

fn indicator(mode: u32) -> Indicator {
    let sticky = mode & libc::S_ISVTX != 0;
    let writable = mode & 0o002 != 0;
    match mode & libc::S_IFMT {
        libc::S_IFDIR => match (sticky, writable) {
            (true, true) => Indicator::StickyAndOtherWritable,
            (false, true) => Indicator::OtherWritable,
            (true, false) => Indicator::Sticky,
            (false, false) => Indicator::Directory,
        },
        libc::S_IFLNK => Indicator::SymbolicLink,
        libc::S_IFIFO => Indicator::FIFO,
        libc::S_IFSOCK => Indicator::Socket,
        libc::S_IFBLK => Indicator::BlockDevice,
        libc::S_IFCHR => Indicator::CharacterDevice,
        _ if mode & libc::S_ISUID != 0 => Indicator::Setuid,
        _ if mode & libc::S_ISGID != 0 => Indicator::Setgid,
        _ if mode & 0o111 != 0 => Indicator::ExecutableFile,
        _ => Indicator::RegularFile,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn painting() {
        let colors = Colors(LsColors::from_string("di=01;34:*.gz=31:ex=32"));
        let paint = |name: &str, mode| {
            let painted = colors.paint(name.into(), name.as_bytes(), mode);
            String::from_utf8(painted).unwrap()
        };
        assert_eq!(paint("d", libc::S_IFDIR | 0o755), "\x1b[1;34md\x1b[0m");
        assert_eq!(paint("a.GZ", libc::S_IFREG | 0o644), "\x1b[31ma.GZ\x1b[0m");
        assert_eq!(paint("a.gz", libc::S_IFREG | 0o755), "\x1b[32ma.gz\x1b[0m");
        assert_eq!(paint("a", libc::S_IFREG | 0o644), "a");
    }

    #[test]
    fn never_and_in_pipes() {
        assert!(Colors::new(Some(When::Never), true).is_none());
        assert!(Colors::new(Some(When::Auto), false).is_none());
        assert!(Colors::new(None, false).is_none());
        assert!(Colors::new(Some(When::Always), false).is_some());
    }
}
