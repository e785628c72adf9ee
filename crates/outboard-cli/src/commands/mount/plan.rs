// SPDX-License-Identifier: GPL-2.0-only
//! The plan of a mount, with its file system, directory and options. The command makes it before it
//! starts anything, and hands it on to the processes that take part.

use super::options::Options;
use crate::commands::uses_images;
use clap::{Args, ValueEnum};
use outboard::System;
use outboard_error::{warn, Error, ErrorKind, Result};
use outboard_sandbox::HostAccess;
use outboard_volume::access::uses_image;
use outboard_volume::address::{check_reserved, ImageName};
use outboard_volume::container_image::check_disk_image;
use outboard_volume::containers::check_format_writable;
use outboard_volume::host_mounts;
use outboard_volume::image_file::{cannot_write, check_writable};
use outboard_volume::image_lock::ImageLock;
use outboard_volume::layers::keys::KeyFile;
use outboard_volume::options::Options as VolumeOptions;
use outboard_volume::remote::{is_remote, Remote};
use outboard_volume::session::{apart, Session};
use outboard_volume::tool_volume::find_format;
use outboard_volume::undo;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Mount an image's file system on a directory, until it is unmounted
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  outboard mount disk.img@1 /tmp/disk
  outboard mount -o ro stick.img ~/stick
  outboard mount -o uid=0,gid=0 rootfs.ext4 tree     new files belong to the image's root
  outboard umount /tmp/disk

Options after -o, separated by commas:
  ro                  read-only: not a byte of the image changes
  rw                  fail if the image cannot be written, instead of mounting it read-only
  allow_other         other users may use the mount, with the rights that the image gives them
  default_permissions the host checks the owners and modes of the image (implied by allow_other)
  uid=N, gid=N        the owner of new files; on FAT and the like, of all files
  sync, dirsync       write each change, or each change of a directory, to stable storage at once
  idmap=u:I:H:COUNT   users from I on of the image are those from H on of the host; g: for groups
  suid, dev           honour set-user-ID bits and device files (root only)
  allow_suid, allow_dev  the same for mount(8) and fstab, which keep suid and dev to themselves
  noexec              run no programs of the image
  remount             change the options of a mount to ro, rw, noexec... (root only)
  type=TYPE, memory=SIZE, vcpus=N  as --type, --memory and --vcpus")]
pub struct MountArgs {
    /// The image, IMAGE@N for a partition, or IMAGE@NAME for a volume
    pub image: OsString,
    /// The directory to mount on; its own contents are hidden meanwhile
    pub directory: PathBuf,
    /// Options, separated by commas; see below
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// Stay in the foreground, and unmount when interrupted
    #[arg(short, long)]
    pub foreground: bool,
    /// If the kernel of the mount crashes, replay the journal and start it again
    #[arg(long)]
    pub restart: bool,
    /// Which of the processes this is
    #[arg(long, hide = true, value_enum, default_value = "command")]
    pub role: MountRole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MountRole {
    Command,
    Keeper,
    Server,
}

/// File systems that have no way to be changed.
pub const NEVER_WRITTEN: [&str; 5] = ["squashfs", "erofs", "iso9660", "cramfs", "romfs"];

/// The source, directory and options of a mount.
pub struct Plan {
    /// `IMAGE`, `IMAGE@N` or `IMAGE@NAME`, absolute.
    pub source: OsString,
    pub image: ImageName,
    pub directory: PathBuf,
    pub options: Options,
    pub settings: VolumeOptions,
    pub restart: bool,
    /// For the processes that are started.
    pub key: Option<KeyFile>,
}

impl MountArgs {
    /// The server has the image alone. The others never look into it.
    pub fn host_access(&self) -> HostAccess {
        // A later step reports bad options.
        let options = Options::parse(&self.options).unwrap_or_default();
        match self.role {
            MountRole::Server => uses_images([&self.image], !options.read_only),
            MountRole::Command | MountRole::Keeper => HostAccess {
                outside: true,
                ..HostAccess::default()
            },
        }
    }
}

/// Facts about an image, found before it is mounted.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// The mounted file system is, or may be, inside of layers.
    pub layered: bool,
    pub encrypted: bool,
    /// Its type has no way to be changed.
    pub never_written: bool,
}

impl Seen {
    /// The error: it cannot be mounted.
    pub fn of(session: &Session, name: &ImageName, forced: bool) -> Result<Self> {
        let image = session.image(&name.file)?;
        if session.is_layered(&image, name) {
            return Ok(Self {
                layered: true,
                encrypted: image.is_encrypted(name),
                never_written: false,
            });
        }
        let probe = image.find(name, forced)?.probe;
        Ok(Self {
            never_written: probe.is_some_and(|probe| NEVER_WRITTEN.contains(&probe.kind)),
            ..Self::default()
        })
    }
}

/// The keeper works in another directory.
pub fn absolute(file: &Path) -> Result<OsString> {
    let found = std::path::absolute(file);
    let failed = |error| Error::failed(format!("cannot use {}", file.display()), &error);
    found.map(PathBuf::into_os_string).map_err(failed)
}

/// `IMAGE` or `IMAGE@N`; an operand as other commands have it may end in ":/".
pub fn parse_image(operand: &OsStr) -> ImageName {
    let bytes = operand.as_bytes();
    let bytes = bytes.strip_suffix(b":/").unwrap_or(bytes);
    ImageName::find(OsStr::from_bytes(bytes))
}

impl Plan {
    pub fn new(mount: &MountArgs, settings: &VolumeOptions) -> Result<Self> {
        let mut image = parse_image(&mount.image);
        check_reserved(&image.file)?;
        check_disk_image(&image.file)?;
        let failed = |path: &Path, error: &io::Error| {
            Error::failed(format!("cannot open {}", path.display()), error)
        };
        if !is_remote(&image.file) {
            image.file = image
                .file
                .canonicalize()
                .map_err(|error| failed(&image.file, &error))?;
        }
        let mut options = Options::parse(&mount.options)?;
        let settings = options.settings(settings);
        options.read_only = settings.read_only;
        let root = System::Host.effective_user() == 0;
        if !root && (options.suid || options.dev) {
            return Err(Error::Usage("-o suid and -o dev are for root".to_owned()));
        }
        Ok(Self {
            source: OsString::from_vec(image.operand()),
            image,
            directory: mount.directory.clone(),
            options,
            settings,
            restart: mount.restart,
            key: None,
        })
    }

    /// Reports errors before anything is started. An image that nobody can write is mounted
    /// read-only.
    pub fn check(&mut self, session: &mut Session) -> Result<()> {
        if is_remote(&self.image.file) {
            return self.check_remote(session);
        }
        if !self.options.read_only && undo::exists(&self.image.file) {
            ImageLock::take(&self.image.file, true)?;
        }
        let format = find_format(session, &self.image.file, false)?;
        let seen = self.look(session, format)?;
        if seen.layered {
            let key = session.key_for(&self.image, seen.encrypted)?;
            self.key = key.as_ref().map(KeyFile::new).transpose()?;
            self.options.read_only |= self.settings.verity.is_some();
        }
        self.options.read_only |= seen.never_written;
        if !self.options.read_only {
            self.check_writable(format)?;
        }
        self.options.default_permissions |= self.needs_checks();
        self.check_directory()
    }

    /// The same for what a server has. Only the server of the mount connects to it.
    pub fn check_remote(&mut self, session: &mut Session) -> Result<()> {
        let user = Remote::of(&self.image.file)
            .transpose()?
            .and_then(|remote| remote.user);
        let key = session.key_for(&self.image, user.is_some())?;
        self.key = key.as_ref().map(KeyFile::new).transpose()?;
        self.options.default_permissions |= self.needs_checks();
        self.check_directory()
    }

    /// Looks at the image. The command is outside of the sandbox: it probes a raw image itself, as
    /// every command does; a sandboxed process probes a qcow2 or vhd image. Only the server opens
    /// an image that is compressed or has to be converted, and once.
    pub fn look(&self, session: &mut Session, format: Option<&str>) -> Result<Seen> {
        let (name, forced) = (&self.image, self.settings.kind.is_some());
        match format {
            None => Seen::of(session, name, forced),
            Some("qcow2" | "vhd") => apart(session, &uses_image(name, false), |session| {
                Seen::of(session, name, forced)
            }),
            // A key that was given is handed on.
            Some(_) => Ok(Seen {
                layered: true,
                ..Seen::default()
            }),
        }
    }

    /// Mounts an image that cannot be written read-only, as mount(8) does, unless the user asks to
    /// write.
    pub fn check_writable(&mut self, format: Option<&str>) -> Result<()> {
        let file = &self.image.file;
        let format = check_format_writable(format).map_err(|error| cannot_write(file, &error));
        let error = match format.and_then(|()| check_writable(file)) {
            Err(error) if !self.options.writable => error,
            other => return other,
        };
        let why = error.message().unwrap_or_default();
        warn(format!("warning: {why}: mounted read-only"));
        self.options.read_only = true;
        Ok(())
    }

    /// Root may mount on what is mounted, as with mount(8).
    pub fn check_directory(&self) -> Result<()> {
        let shown = self.directory.display();
        let found =
            host_mounts::real(&self.directory).and_then(|directory| host_mounts::find(&directory));
        if let (Ok(Some(mounted)), false) = (found, System::Host.effective_user() == 0) {
            return Err(Error::known(
                ErrorKind::InUse,
                format!(
                    "{shown}: {} is mounted there already (outboard umount {shown} ends that)",
                    Path::new(&mounted.source).display()
                ),
            ));
        }
        let metadata = std::fs::metadata(&self.directory)
            .map_err(|error| Error::failed(format!("cannot mount on {shown}"), &error))?;
        if !metadata.is_dir() {
            return Err(Error::known(
                ErrorKind::Usage,
                format!("{shown} is not a directory"),
            ));
        }
        Ok(())
    }

    /// Whether the host has to check permissions. Root alone may do everything anyway, except with
    /// files that have no owner here; and for each check behind a change of a directory the host
    /// asks for its attributes again. If nothing changes it asks less if it checks. In a name
    /// space of users there are access lists only if it checks (fs/fuse/acl.c).
    pub fn needs_checks(&self) -> bool {
        let options = &self.options;
        let limited =
            options.read_only || options.is_mapped() || !host_mounts::is_in_first_user_name_space();
        options.allow_other || (System::Host.effective_user() == 0 && limited)
    }

    /// The command line of another process that takes part.
    pub fn arguments(&self, role: &str) -> Result<Vec<OsString>> {
        let directory = host_mounts::real(&self.directory).map_err(|error| {
            Error::failed(
                format!("cannot mount on {}", self.directory.display()),
                &error,
            )
        })?;
        let settings = &self.settings;
        let mut arguments: Vec<OsString> = vec!["-v".into(); settings.verbose.into()];
        arguments.extend(["mount".into(), "--role".into(), role.into()]);
        if let Some(kind) = &settings.kind {
            arguments.push(format!("--type={kind}").into());
        }
        if let Some(vcpus) = settings.vcpus {
            arguments.push(format!("--vcpus={vcpus}").into());
        }
        if let Some(memory) = settings.memory {
            arguments.push(format!("--memory={memory}").into());
        }
        if let Some(net) = &settings.net {
            arguments.push(format!("--net={net}").into());
        }
        if let Some(seconds) = settings.timeout {
            arguments.push(format!("--timeout={seconds}").into());
        }
        if settings.no_sandbox {
            arguments.push("--no-sandbox".into());
        }
        if settings.raw {
            arguments.push("--raw".into());
        }
        if let Some(key) = &self.key {
            arguments.extend(["--key-file".into(), key.path().into()]);
        } else if let Some(path) = &settings.key_file {
            arguments.extend(["--key-file".into(), path.into()]);
        }
        if let Some(hash) = &settings.verity {
            arguments.push(format!("--verity={hash}").into());
        }
        if let Some(offset) = settings.verity_offset {
            arguments.push(format!("--verity-offset={offset}").into());
        }
        if let Some(algorithm) = &settings.integrity {
            arguments.push(format!("--integrity={algorithm}").into());
        }
        for file in &settings.components {
            arguments.extend(["--component".into(), absolute(file)?]);
        }
        for file in &settings.backing {
            arguments.extend(["--backing".into(), absolute(file)?]);
        }
        for disk in &settings.disks {
            arguments.extend(["--disk".into(), absolute(disk)?]);
        }
        if self.restart {
            arguments.push("--restart".into());
        }
        let list = self.options.to_list();
        if !list.is_empty() {
            arguments.push(format!("-o{list}").into());
        }
        arguments.extend(["--".into(), self.source.clone(), directory.into()]);
        Ok(arguments)
    }
}
