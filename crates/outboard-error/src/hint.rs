// SPDX-License-Identifier: GPL-2.0-only
//! Advice of the engine as values. The engine knows what the user can do; only the front knows its
//! own names for that: options of a program, methods of a library.

use serde::{Deserialize, Serialize};

/// The advice of a message: what the user can do, or the setting that the message is about.
///
/// A message has the words of the front ([`Front::words`](crate::Front::words)), or neutral ones,
/// which name no option of any program. They begin with a blank where a message may lack them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Hint {
    /// Give the key of the encrypted volume. It was not given, and there is no terminal to ask on.
    KeyFile,
    /// The key that was given.
    GivenKey,
    /// Give the password of the server as the key.
    Password,
    /// The place of a password: the key, not the name of the image.
    PasswordFile,
    /// Add the missing disks of the same machine.
    AddDisks,
    /// The setting with further disks.
    FurtherDisk,
    /// Open it for reading alone.
    ReadOnly,
    /// The setting that permits reading alone.
    OpenedReadOnly,
    /// The setting with the root hash of dm-verity.
    RootHash,
    /// The setting with the algorithm of dm-integrity's tags.
    TagAlgorithm,
    /// List what this image has.
    Inspect {
        /// Its name, as the user would write it.
        name: String,
    },
    /// Name the type of the file system.
    NameType,
    /// Name no type of a file system, or another one.
    OtherType,
    /// Unpack a tar archive into an image, or make an image of it.
    UnpackTar,
    /// Make an image of the files of a directory.
    MakeImage,
    /// Make the file system again with more inodes.
    MoreInodes,
    /// Overwrite the disk image, or name a place in it.
    OverwriteImage,
    /// Overwrite the file, or name another one.
    OverwriteArchive,
    /// Overwrite the file.
    OverwriteFile,
    /// Overwrite the volume, or name a place in it.
    OverwriteVolume {
        /// Its name, as the user would write it.
        name: String,
    },
    /// Overwrite the volume, whose parts lie in order, while it is read.
    OverwriteInOrder,
    /// Permit the image to be based on this file.
    Backing {
        /// Its path, as the user would write it.
        path: String,
    },
    /// End the mount that has the image.
    Unmount {
        /// The directory of the mount, as the user would write it.
        directory: String,
    },
    /// Check the file system.
    RunFsck {
        /// The name of its volume, as the user would write it, unless the message has it.
        volume: Option<String>,
        /// Repair what is wrong.
        repair: bool,
    },
    /// Write to the image, which first undoes the half change.
    UndoHalfChange,
    /// Use a kind of network interface that the sandbox permits, or no sandbox.
    PermittedInterface,
    /// Use no sandbox.
    NoSandbox,
    /// The setting of how much memory the kernel may use.
    MoreMemory,
    /// The setting of how long to wait for a server.
    Timeout,
    /// Leave the file out.
    Exclude,
    /// Name a user in the owner.
    EmptyOwner,
    /// Name one group.
    OneGroup,
    /// Name a group in the owner or by itself, not both.
    TwoGroups,
    /// Replace the file or file system that is there already.
    Replace,
    /// Name the contents of the new file system.
    Contents,
    /// Name no contents: the type has no files.
    NoContents,
    /// The settings that change the files of a directory, which a tar archive has itself.
    ChangesOfTree,
    /// Give all files of the new file system one owner: it cannot map several.
    OneOwner,
    /// Choose no size that fits: the volume has its size.
    NoFit,
    /// Name no size: the image has its size.
    NoSize,
    /// Say how large the new image is to be.
    NewSize,
    /// Choose a larger size, or one that fits.
    LargerSize,
    /// Make a partition table in this image, which loses its contents.
    MakeTable {
        /// The name of the image, as the user would write it.
        name: String,
    },
    /// Replace the partition table, which loses the contents of its partitions.
    ReplaceTable,
    /// Copy the files of this volume into a new image.
    CopyToNew {
        /// Its name, as the user would write it.
        name: String,
    },
    /// Replay the journal of this volume, then repair it.
    ReplayJournal {
        /// Its name, as the user would write it.
        volume: String,
    },
    /// Only check: change nothing.
    OnlyCheck,
    /// Decompress the archive with this tool.
    Decompress {
        /// Its name and options.
        tool: String,
    },
}

impl Hint {
    /// Words that name no option of any program.
    pub(crate) fn neutral(&self) -> String {
        let words = match self {
            Self::KeyFile => "give its key",
            Self::GivenKey => "the given key",
            Self::PasswordFile => " that is the key file",
            Self::ReadOnly => "open it for reading alone",
            Self::NameType => "if you know its type, name that",
            Self::OtherType => "name another type, or none",
            Self::UnpackTar => "unpack it into an image",
            Self::MakeImage => " of its files",
            Self::OverwriteImage | Self::OverwriteArchive | Self::OverwriteFile => {
                "remove it first, to replace it"
            }
            Self::OverwriteVolume { .. } => "it is not overwritten",
            Self::Backing { path } => {
                return format!("if you trust the image, permit {path} as its backing file");
            }
            Self::Unmount { directory } => return format!("umount {directory}"),
            Self::RunFsck { volume, .. } => {
                let volume = volume.as_deref();
                return volume.map_or("fsck".to_owned(), |volume| format!("fsck of {volume}"));
            }
            Self::UndoHalfChange => "open it for writing",
            Self::PermittedInterface => "use an interface of the kind user or host",
            Self::EmptyOwner => "an owner is a name or number",
            Self::OneGroup => "a group is one name or number",
            Self::TwoGroups => "the owner and the group name two groups: leave one of them out",
            Self::NoContents => "contents make no sense",
            Self::ChangesOfTree => "owners, labels and reproducible images",
            Self::OneOwner => "one owner for all files",
            Self::NoFit => "it cannot be made to fit",
            Self::NoSize => "a size makes no sense",
            Self::LargerSize => "give a larger size, or let the size fit",
            Self::ReplayJournal { volume } => {
                return format!("replay the journal of {volume}, and repair it");
            }
            Self::Decompress { tool } => return format!(" with {tool}"),
            Self::Password
            | Self::AddDisks
            | Self::FurtherDisk
            | Self::OpenedReadOnly
            | Self::RootHash
            | Self::TagAlgorithm
            | Self::Inspect { .. }
            | Self::MoreInodes
            | Self::OverwriteInOrder
            | Self::NoSandbox
            | Self::MoreMemory
            | Self::Timeout
            | Self::Exclude
            | Self::Replace
            | Self::Contents
            | Self::NewSize
            | Self::MakeTable { .. }
            | Self::ReplaceTable
            | Self::CopyToNew { .. }
            | Self::OnlyCheck => "",
        };
        words.to_owned()
    }
}
