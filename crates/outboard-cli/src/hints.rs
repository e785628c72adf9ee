// SPDX-License-Identifier: GPL-2.0-only
//! The engine's hints in the words of the program: its options and commands.

use outboard_error::Hint;

/// `None`: the neutral words are the program's, too.
pub fn words(hint: &Hint) -> Option<String> {
    let words = match hint {
        Hint::KeyFile => "give its key with --key-file FILE, there is no terminal to ask on",
        Hint::GivenKey => "the key of the key file (--key-file)",
        Hint::Password => " (--key-file FILE)",
        Hint::PasswordFile => " for --key-file",
        Hint::AddDisks => " with --disk",
        Hint::FurtherDisk => " (--disk)",
        Hint::ReadOnly => "read with --ro",
        Hint::OpenedReadOnly => " (--ro)",
        Hint::RootHash => " (--verity)",
        Hint::TagAlgorithm => " (--integrity)",
        Hint::Inspect { name } => return Some(format!(" (see outboard info {name})")),
        Hint::NameType => "if you know its type, say --type TYPE",
        Hint::OtherType => "leave --type out, or name another type",
        Hint::UnpackTar => {
            "outboard mkfs TYPE NEW --from it makes one, outboard tar-in unpacks it into one"
        }
        Hint::MakeImage => " with outboard mkfs TYPE NEW --from DIR",
        Hint::MoreInodes => ": outboard mkfs ... -- -N NUMBER",
        Hint::OverwriteImage => {
            "write IMAGE:/PATH for a place in it, or --force to overwrite all of it"
        }
        Hint::OverwriteArchive => "name another file, or say --force to overwrite it",
        Hint::OverwriteFile => "say --force to overwrite it",
        Hint::OverwriteVolume { name } => {
            return Some(format!(
                "write {name}:/ for a place in the file system, or --force to overwrite the volume"
            ));
        }
        Hint::OverwriteInOrder => ", or use --force if its parts lie in order",
        Hint::Backing { path } => {
            return Some(format!("if you trust the image, say --backing {path}"));
        }
        Hint::Unmount { directory } => return Some(format!("outboard umount {directory}")),
        Hint::RunFsck { volume, repair } => {
            let repair = if *repair { " -y" } else { "" };
            let volume = volume.iter().flat_map(|volume| [" ", volume]);
            return Some(format!(
                "outboard fsck{repair}{}",
                String::from_iter(volume)
            ));
        }
        Hint::UndoHalfChange => {
            "run that command again, or any other that writes (as outboard fsck -y)"
        }
        Hint::PermittedInterface => "add --no-sandbox, or use --net user or --net host",
        Hint::NoSandbox => ", or use --no-sandbox",
        Hint::MoreMemory => "; --memory gives it more",
        Hint::Timeout => " (--timeout sets how long to wait)",
        Hint::Exclude => ": --exclude",
        Hint::EmptyOwner => "--owner needs a name or number",
        Hint::OneGroup => "--group takes one name or number",
        Hint::TwoGroups => "--owner USER:GROUP and --group name two groups: leave one of them out",
        Hint::Replace => " (--force overwrites it)",
        Hint::Contents => " with --from",
        Hint::NoContents => "--from makes no sense",
        Hint::ChangesOfTree => "--owner, --owner-map, --file-contexts and --reproducible",
        Hint::OneOwner => "--owner USER:GROUP for all files",
        Hint::NoFit => "--fit makes no sense",
        Hint::NoSize => "--size makes no sense",
        Hint::NewSize => ", as in --size 4G",
        Hint::LargerSize => "give a larger --size, or --fit",
        Hint::MakeTable { name } => {
            return Some(format!(
                " (outboard part {name} create --force makes one; what is in the image is lost)"
            ));
        }
        Hint::ReplaceTable => " (--force gives it a new table; what is in its partitions is lost)",
        Hint::CopyToNew { name } => return Some(format!(": outboard cp -a {name}:/ NEW:/")),
        Hint::ReplayJournal { volume } => {
            return Some(format!("outboard fsck --replay -y {volume}"));
        }
        Hint::OnlyCheck => " (-n)",
        Hint::Decompress { tool } => {
            return Some(format!(", as in {tool} FILE | outboard tar-in ..."));
        }
        _ => return None,
    };
    Some(words.to_owned())
}
