// SPDX-License-Identifier: GPL-2.0-only
//! `-o remount`: changes how the host uses a file system that is mounted already.
//!
//! Only the host changes. The server goes on with the image as it opened it, so options that are
//! the server's must be those of the mount.

use super::options::Options;
use super::plan::Plan;
use super::umount;
use outboard::System;
use outboard_error::{reason, Error, ErrorKind, Result};
use outboard_volume::address::ImageName;
use outboard_volume::host_mounts;
use outboard_volume::servers::{self, MountServer};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Flags of a mount that each word sets or takes away.
const FLAGS: [(&str, libc::c_ulong, bool); 10] = [
    ("ro", libc::MS_RDONLY, true),
    ("rw", libc::MS_RDONLY, false),
    ("nosuid", libc::MS_NOSUID, true),
    ("suid", libc::MS_NOSUID, false),
    ("allow_suid", libc::MS_NOSUID, false),
    ("nodev", libc::MS_NODEV, true),
    ("dev", libc::MS_NODEV, false),
    ("allow_dev", libc::MS_NODEV, false),
    ("noexec", libc::MS_NOEXEC, true),
    ("exec", libc::MS_NOEXEC, false),
];

pub fn run(plan: &Plan, lists: &[String]) -> Result<()> {
    let shown = plan.directory.display();
    let what = format!("cannot remount {shown}");
    if System::Host.effective_user() != 0 {
        return Err(Error::Usage("-o remount is for root".to_owned()));
    }
    let directory =
        host_mounts::real(&plan.directory).map_err(|error| Error::failed(what.clone(), &error))?;
    let mounted =
        host_mounts::find(&directory).map_err(|error| Error::failed(what.clone(), &error))?;
    let Some(mounted) = mounted else {
        return Err(Error::known(
            ErrorKind::NotFound,
            format!("{what}: no mount of outboard (see findmnt)"),
        ));
    };
    if ImageName::find(&mounted.source).file != plan.image.file {
        return Err(Error::known(
            ErrorKind::Usage,
            format!(
                "{what}: {} is mounted there",
                Path::new(&mounted.source).display()
            ),
        ));
    }
    let server = servers::all()
        .into_iter()
        .find(|server| server.source == mounted.source && server.directory == directory)
        .ok_or_else(|| Error::known(ErrorKind::NotFound, format!("{what}: its server is gone")))?;
    check(&server, &plan.options).map_err(|why| Error::Failed(format!("{what}: {why}")))?;
    change(&directory, flags(mounted.flags(), lists)).map_err(|error| match error {
        Some(error) if error.raw_os_error() == Some(libc::EBUSY) => Error::known(
            ErrorKind::InUse,
            format!(
                "{what}: {}: files are open for writing (see fuser -vm)",
                reason(&error)
            ),
        ),
        Some(error) => Error::failed(what, &error),
        None => Error::Usage(format!("{shown}: no name of a directory")),
    })?;
    if plan.options.read_only {
        umount::write_all(&directory)
    } else {
        Ok(())
    }
}

/// Refuses options that the running server cannot fulfil.
fn check(server: &MountServer, wanted: &Options) -> std::result::Result<(), String> {
    let server = Options::parse(&server.options).unwrap_or_default();
    if server.read_only && !wanted.read_only {
        return Err(
            "its server has the image open read-only; unmount it, and mount it anew".to_owned(),
        );
    }
    let changes = [
        (wanted.sync && !server.sync, "sync"),
        (wanted.dirsync && !server.dirsync, "dirsync"),
        (wanted.allow_other && !server.allow_other, "allow_other"),
        (wanted.user.is_some() && wanted.user != server.user, "uid"),
        (
            wanted.group.is_some() && wanted.group != server.group,
            "gid",
        ),
        (
            wanted.is_mapped()
                && (&wanted.users, &wanted.groups) != (&server.users, &server.groups),
            "idmap",
        ),
    ];
    match changes.into_iter().find(|(changed, _)| *changed) {
        Some((_, word)) => Err(format!("-o {word} cannot change while it is mounted")),
        None => Ok(()),
    }
}

/// The flags of a mount after these options. Flags that the options do not mention stay.
fn flags(before: libc::c_ulong, lists: &[String]) -> libc::c_ulong {
    let words = lists.iter().flat_map(|list| list.split(','));
    words.fold(before, |flags, word| {
        match FLAGS.iter().find(|(name, _, _)| *name == word) {
            Some((_, flag, true)) => flags | flag,
            Some((_, flag, false)) => flags & !flag,
            None => flags,
        }
    })
}

/// The error `None`: the name has a NUL.
fn change(
    directory: &Path,
    flags: libc::c_ulong,
) -> std::result::Result<(), Option<std::io::Error>> {
    let path = CString::new(directory.as_os_str().as_bytes()).map_err(|_| None)?;
    System::Host
        .mount(c"none", &path, c"", libc::MS_REMOUNT | flags, c"")
        .map_err(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_change_only_what_they_name() {
        let before = libc::MS_NOSUID | libc::MS_NODEV;
        for (list, after) in [
            ("remount,ro", before | libc::MS_RDONLY),
            ("remount,ro,rw,dev", libc::MS_NOSUID),
            ("allow_suid,nosuid,noexec,uid=5", before | libc::MS_NOEXEC),
        ] {
            assert_eq!(flags(before, &[list.to_owned()]), after, "{list}");
        }
    }
}
