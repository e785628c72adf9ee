// SPDX-License-Identifier: GPL-2.0-only
//! `outboard umount`.

use clap::Args;
use outboard::HostTree;
use outboard_error::{reason, report, Error, ErrorKind, Result};
use outboard_volume::address::ImageName;
use outboard_volume::host_mounts::{self, HostMount};
use outboard_volume::servers::{self, MountServer};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the server may take to end after everything was written.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks at the lock of the image. It doubles from the first to the second.
const FIRST_INTERVAL: Duration = Duration::from_millis(1);
const LAST_INTERVAL: Duration = Duration::from_millis(50);

/// Unmount a directory; when umount returns, all changes are on stable storage
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  outboard umount /tmp/disk")]
pub struct UmountArgs {
    /// The directory on which the image is mounted
    pub directory: PathBuf,
    /// Detach the mount now if it is in use, and end it when nobody uses it any more
    #[arg(short, long)]
    pub lazy: bool,
}

pub fn run(options: &UmountArgs) -> Result<()> {
    let shown = options.directory.display();
    let operand = || options.directory.as_os_str().as_bytes().to_vec();
    let failed = |error| Error::of_file("cannot unmount", operand(), &error);
    let directory = host_mounts::real(&options.directory).map_err(failed)?;
    let Some(mounted) = host_mounts::find(&directory).map_err(failed)? else {
        return Err(Error::known(
            ErrorKind::NotFound,
            format!("{shown}: no mount of outboard (see findmnt)"),
        ));
    };
    let removed = mounted.is_writable() && has_removed_image(&mounted);
    let written = write_all(&directory);
    let ended = host_mounts::unmount(&directory, options.lazy).and_then(|()| {
        if options.lazy {
            Ok(())
        } else {
            wait(&mounted.source)
        }
    });
    match (written, ended) {
        (Err(lost), Err(error)) => {
            report(error.message().unwrap_or_default().to_owned());
            return Err(lost);
        }
        (written, ended) => written.and(ended)?,
    }
    if removed {
        return Err(Error::known(
            ErrorKind::NotFound,
            format!(
            "{} was removed while it was mounted on {shown}: everything in it is lost, also what \
             was written there; only a copy made before has it",
            ImageName::find(&mounted.source).file.display()
        ),
        ));
    }
    Ok(())
}

/// Whether the file goes with the mount.
fn has_removed_image(mounted: &HostMount) -> bool {
    let is_its = |server: &MountServer| {
        server.source == mounted.source && server.directory == mounted.directory
    };
    let servers = servers::all().into_iter();
    servers
        .filter(is_its)
        .any(|server| server.has_removed_image())
}

/// The root directory stands for the whole file system: this tells of every error since it was
/// mounted.
pub fn write_all(directory: &Path) -> Result<()> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let synced = HostTree.open_fd(directory, flags, 0).and_then(|root| {
        root.sync_file_system()?;
        root.sync()
    });
    match synced {
        Ok(()) => Ok(()),
        // The host may have killed the server, for memory or by a signal.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::ENOTCONN | libc::ECONNABORTED)
            ) =>
        {
            Err(Error::known(
                ErrorKind::of(&error),
                format!(
                    "{}: the server of this mount ended before: what it had not written is lost",
                    directory.display()
                ),
            ))
        }
        // Somebody else's.
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => Ok(()),
        Err(error) => Err(Error::known(
            ErrorKind::of(&error),
            format!(
                "{}: not everything was written: {}",
                directory.display(),
                reason(&error)
            ),
        )),
    }
}

/// Waits until the server has let go of the image.
fn wait(source: &OsStr) -> Result<()> {
    let image = ImageName::find(source);
    let Ok(file) = HostTree.open_fd(&image.file, libc::O_RDONLY, 0) else {
        return Ok(());
    };
    let start = Instant::now();
    let mut interval = FIRST_INTERVAL;
    while start.elapsed() < PATIENCE {
        if file.try_lock_shared().unwrap_or(true) {
            return Ok(());
        }
        std::thread::sleep(interval);
        interval = (2 * interval).min(LAST_INTERVAL);
    }
    Err(Error::known(
        ErrorKind::InUse,
        format!(
            "{}: unmounted, but its server still has the image open",
            image.shown()
        ),
    ))
}
