// SPDX-License-Identifier: GPL-2.0-only
//! How mount(8) calls this program for an entry of type `fuse.outboard` in fstab.
//!
//! mount.fuse3 calls `outboard SOURCE DIRECTORY -o OPTIONS`. It puts "dev" and "suid" among the
//! options of its own accord, so there these do not count. Under a name such as
//! `mount.fuse.outboard` it is a helper of mount(8) itself, which passes on what fstab has: `SOURCE
//! DIRECTORY [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`.

use crate::commands::Command;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The command line as users write it.
pub fn usual(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let arguments: Vec<OsString> = arguments.collect();
    let name = arguments.first().map(Path::new).and_then(Path::file_name);
    let is_helper = name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"mount."));
    let usual = match arguments.get(1..) {
        Some(rest) if is_helper => of_helper(rest),
        Some([source, directory, option, list]) if option == "-o" => {
            of_wrapper(source, directory, list)
        }
        _ => None,
    };
    usual.unwrap_or(arguments)
}

fn mount(source: &OsStr, directory: &OsStr, list: &OsStr) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["outboard".into(), "mount".into()];
    if !list.is_empty() {
        words.extend(["-o".into(), list.to_owned()]);
    }
    words.extend(["--".into(), source.to_owned(), directory.to_owned()]);
    words
}

fn of_wrapper(source: &OsStr, directory: &OsStr, list: &OsStr) -> Option<Vec<OsString>> {
    let is_command = source
        .to_str()
        .is_some_and(|word| word.starts_with('-') || Command::name_of(word).is_some());
    if is_command {
        return None;
    }
    let words = list.to_str()?.split(',');
    let kept: Vec<&str> = words
        .filter(|word| !matches!(*word, "dev" | "suid"))
        .collect();
    Some(mount(source, directory, kept.join(",").as_ref()))
}

fn of_helper(rest: &[OsString]) -> Option<Vec<OsString>> {
    let [source, directory, options @ ..] = rest else {
        return None;
    };
    let mut list = OsString::new();
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match option.to_str()? {
            "-o" => list = options.next()?.clone(),
            "-N" | "-t" => drop(options.next()?),
            // Sloppy, no mtab, verbose: these change nothing here.
            other if other.trim_start_matches(['-', 's', 'n', 'v']).is_empty() => {}
            _ => return None,
        }
    }
    Some(mount(source, directory, &list))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual_words(line: &str) -> String {
        let words = usual(line.split(' ').map(OsString::from));
        let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
        words.join(" ")
    }

    #[test]
    fn what_mount_calls() {
        assert_eq!(
            usual_words("outboard /a.img@1 /mnt -o rw,user,dev,suid"),
            "outboard mount -o rw,user -- /a.img@1 /mnt"
        );
        assert_eq!(
            usual_words(
                "/sbin/mount.fuse.outboard /a.img /mnt -sn -N 5 -o ro,dev -t fuse.outboard"
            ),
            "outboard mount -o ro,dev -- /a.img /mnt"
        );
        assert_eq!(usual_words("mount.outboard a b"), "outboard mount -- a b");
    }

    #[test]
    fn what_users_call() {
        for line in [
            "outboard ls a.img:/ -o x",
            "outboard mount a -o ro",
            "outboard --ro cat -o x",
            "outboard",
        ] {
            assert_eq!(usual_words(line), line);
        }
    }
}
