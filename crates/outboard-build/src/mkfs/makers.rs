// SPDX-License-Identifier: GPL-2.0-only
//! The distribution's makers of file systems: the known ones, and the options of each.

use crate::megabytes::MEGABYTE;
use outboard_error::{Error, ErrorKind, Result};
use outboard_sandbox::tool::Tool;
use outboard_transfer::owner::Owner;
use outboard_transfer::report::Loss;
use outboard_volume::image_file::FILE_SECTOR;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;

/// How files come into the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillMethod {
    /// The empty file system is mounted and written.
    ByKernel,
    /// It is read-only: the tool is given the tree.
    ByTool,
    /// It has no files.
    Never,
}

/// Whether the same tree makes the same image each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reproducible {
    /// The tool does so by these words, and by the time in its environment.
    ByTool(&'static [&'static str]),
    /// The tool is given the tree, and what is left of the time and the host is settled afterwards.
    Ext,
    /// The kernel writes, and the times of creation are settled afterwards.
    Fat,
    /// The tool keeps times later than the source date, which are settled afterwards.
    Iso,
    No,
}

/// An option of the tool: these words, in which `{}` stands for the text.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    words: &'static [&'static str],
    /// Bytes that the text may have.
    longest: usize,
}

const fn field(words: &'static [&'static str], longest: usize) -> Option<Field> {
    Some(Field { words, longest })
}

/// How a tool learns of the device's sectors. It works on a file, and takes them for those of a
/// file.
#[derive(Clone, Copy, Debug)]
enum Sectors {
    /// Its blocks hold sectors of any device.
    Any,
    /// These words, in which `{}` stands for the size.
    ByWords(&'static [&'static str]),
    /// By a variable of its environment.
    ByVariable(&'static str),
    /// Larger ones are more than the type has.
    AtMost(u64),
}

/// A maker of one type.
#[derive(Debug)]
pub struct FileSystemMaker {
    pub kind: &'static str,
    pub tool: Tool,
    /// The words of the call; `{image}`, `{tree}` and `{options}` are replaced.
    words: &'static [&'static str],
    label: Option<Field>,
    uuid: Option<Field>,
    sectors: Sectors,
    pub filled: FillMethod,
    /// The smallest that the tool makes, in bytes.
    pub least: u64,
    pub reproducible: Reproducible,
    /// Whether holes of sparse files take no room.
    pub holes: bool,
    /// The option for an owner and a group of all files, if the tool reads the tree.
    owner: Option<(&'static str, &'static str)>,
    /// The option for a file of SELinux labels.
    labels: Option<&'static str>,
    /// The attributes that the type does not have, or that a tool silently leaves out.
    pub leaves_out: &'static [Loss],
    /// Whether each name of a file with hard links is a file of its own.
    pub copies_links: bool,
    /// The tool leaves out what it cannot read, says so on standard error, and calls that success.
    /// Lines that fit these patterns ([`Tool::prints`]) are about metadata only.
    pub skips: Option<&'static [&'static str]>,
    /// The seconds since 1970 that the type can hold, if a tool reads the tree.
    pub times: RangeInclusive<i64>,
    /// The largest user and group that the type can hold, if a tool reads the tree.
    pub owners: [u32; 2],
}

const UUID: usize = 36;
const ATTRIBUTES: &[Loss] = &[Loss::AccessList, Loss::Attribute];

const NONE: FileSystemMaker = FileSystemMaker {
    kind: "",
    tool: Tool::new("", ""),
    words: &["{options}", "{image}"],
    label: None,
    uuid: None,
    sectors: Sectors::Any,
    filled: FillMethod::ByKernel,
    least: MEGABYTE,
    reproducible: Reproducible::No,
    holes: true,
    owner: None,
    labels: None,
    leaves_out: &[],
    copies_links: false,
    skips: None,
    times: i64::MIN..=i64::MAX,
    owners: [u32::MAX; 2],
};

const fn ext(kind: &'static str, words: &'static [&'static str]) -> FileSystemMaker {
    FileSystemMaker {
        kind,
        tool: Tool::new("mke2fs", "e2fsprogs"),
        words,
        label: field(&["-L", "{}"], 16),
        uuid: field(&["-U", "{}"], UUID),
        sectors: Sectors::ByVariable("MKE2FS_DEVICE_SECTSIZE"),
        reproducible: Reproducible::Ext,
        times: i32::MIN as i64..=i64::MAX,
        ..NONE
    }
}

const fn fat(kind: &'static str, words: &'static [&'static str], least: u64) -> FileSystemMaker {
    FileSystemMaker {
        kind,
        tool: Tool::new("mkfs.vfat", "dosfstools"),
        words,
        label: field(&["-n", "{}"], 11),
        uuid: field(&["-i", "{}"], 8),
        sectors: Sectors::ByWords(&["-S", "{}"]),
        least,
        reproducible: Reproducible::Fat,
        holes: false,
        leaves_out: ATTRIBUTES,
        copies_links: true,
        ..NONE
    }
}

const MAKERS: &[FileSystemMaker] = &[
    ext("ext4", &["-q", "-F", "-t", "ext4", "{options}", "{image}"]),
    ext("ext3", &["-q", "-F", "-t", "ext3", "{options}", "{image}"]),
    ext("ext2", &["-q", "-F", "-t", "ext2", "{options}", "{image}"]),
    FileSystemMaker {
        kind: "xfs",
        tool: Tool::new("mkfs.xfs", "xfsprogs"),
        words: &["-q", "-f", "{options}", "{image}"],
        label: field(&["-L", "{}"], 12),
        uuid: field(&["-m", "uuid={}"], UUID),
        sectors: Sectors::ByWords(&["-s", "size={}"]),
        least: 300 * MEGABYTE,
        ..NONE
    },
    FileSystemMaker {
        kind: "btrfs",
        tool: Tool::new("mkfs.btrfs", "btrfs-progs"),
        words: &["-q", "-f", "{options}", "{image}"],
        label: field(&["-L", "{}"], 255),
        uuid: field(&["-U", "{}"], UUID),
        least: 128 * MEGABYTE,
        ..NONE
    },
    FileSystemMaker {
        kind: "f2fs",
        tool: Tool::new("mkfs.f2fs", "f2fs-tools"),
        words: &["-q", "-f", "{options}", "{image}"],
        label: field(&["-l", "{}"], 512),
        uuid: field(&["-U", "{}"], UUID),
        sectors: Sectors::ByWords(&["-w", "{}"]),
        least: 64 * MEGABYTE,
        ..NONE
    },
    fat("vfat", &["{options}", "{image}"], MEGABYTE),
    fat("fat12", &["-F", "12", "{options}", "{image}"], MEGABYTE),
    fat(
        "fat16",
        &["-F", "16", "{options}", "{image}"],
        16 * MEGABYTE,
    ),
    fat(
        "fat32",
        &["-F", "32", "{options}", "{image}"],
        34 * MEGABYTE,
    ),
    FileSystemMaker {
        kind: "exfat",
        tool: Tool::new("mkfs.exfat", "exfatprogs"),
        label: field(&["-L", "{}"], 45),
        sectors: Sectors::ByWords(&["--sector-size={}"]),
        least: 4 * MEGABYTE,
        holes: false,
        leaves_out: ATTRIBUTES,
        copies_links: true,
        ..NONE
    },
    FileSystemMaker {
        kind: "ntfs",
        tool: Tool::new("mkntfs", "ntfs-3g"),
        words: &["-F", "-Q", "-q", "{options}", "{image}"],
        label: field(&["-L", "{}"], 128),
        sectors: Sectors::ByWords(&["-s", "{}"]),
        least: 8 * MEGABYTE,
        // It has holes, but no file may be larger than the volume.
        holes: false,
        ..NONE
    },
    FileSystemMaker {
        kind: "udf",
        tool: Tool::new("mkudffs", "udftools"),
        words: &["--blocksize=512", "{options}", "{image}"],
        label: field(&["--label={}"], 126),
        uuid: field(&["--uuid={}"], 16),
        sectors: Sectors::ByWords(&["--blocksize={}"]),
        least: 4 * MEGABYTE,
        ..NONE
    },
    FileSystemMaker {
        kind: "nilfs2",
        tool: Tool::new("mkfs.nilfs2", "nilfs-tools"),
        words: &["-q", "-f", "{options}", "{image}"],
        label: field(&["-L", "{}"], 80),
        least: 160 * MEGABYTE,
        ..NONE
    },
    FileSystemMaker {
        kind: "jfs",
        tool: Tool::new("mkfs.jfs", "jfsutils"),
        words: &["-q", "{options}", "{image}"],
        label: field(&["-L", "{}"], 16),
        least: 32 * MEGABYTE,
        ..NONE
    },
    FileSystemMaker {
        kind: "minix",
        tool: Tool::new("mkfs.minix", "util-linux"),
        words: &["-3", "{options}", "{image}"],
        sectors: Sectors::AtMost(1024),
        ..NONE
    },
    FileSystemMaker {
        kind: "swap",
        tool: Tool::new("mkswap", "util-linux"),
        words: &["-f", "{options}", "{image}"],
        label: field(&["-L", "{}"], 16),
        uuid: field(&["-U", "{}"], UUID),
        filled: FillMethod::Never,
        ..NONE
    },
    FileSystemMaker {
        kind: "squashfs",
        tool: Tool::new("mksquashfs", "squashfs-tools"),
        words: &[
            "{tree}",
            "{image}",
            "-noappend",
            "-quiet",
            "-no-progress",
            "{options}",
        ],
        filled: FillMethod::ByTool,
        // Else it takes from the host how much of a file is holes.
        reproducible: Reproducible::ByTool(&["-no-sparse"]),
        owner: Some(("-force-uid", "-force-gid")),
        leaves_out: &[Loss::AccessList],
        skips: Some(&[
            "Unrecognised xattr prefix *",
            "File * changed size while reading filesystem, attempting to re-read",
        ]),
        times: 0..=u32::MAX as i64,
        ..NONE
    },
    FileSystemMaker {
        kind: "erofs",
        tool: Tool::new("mkfs.erofs", "erofs-utils"),
        words: &[
            "--quiet",
            "--preserve-mtime",
            "{options}",
            "{image}",
            "{tree}",
        ],
        uuid: field(&["-U", "{}"], UUID),
        filled: FillMethod::ByTool,
        reproducible: Reproducible::ByTool(&[]),
        owner: Some(("--force-uid={}", "--force-gid={}")),
        labels: Some("--file-contexts={}"),
        ..NONE
    },
    FileSystemMaker {
        kind: "iso9660",
        tool: Tool::new("xorriso", "xorriso"),
        words: &[
            "-as",
            "mkisofs",
            "-quiet",
            "-R",
            // Files of 4 GiB and more.
            "-iso-level",
            "3",
            "{options}",
            "-o",
            "{image}",
            "{tree}",
        ],
        label: field(&["-V", "{}"], 32),
        sectors: Sectors::AtMost(2048),
        filled: FillMethod::ByTool,
        reproducible: Reproducible::Iso,
        owner: Some(("-uid", "-gid")),
        leaves_out: ATTRIBUTES,
        // The years 1900 to 2155.
        times: -2_208_988_800..=5_869_583_999,
        ..NONE
    },
    FileSystemMaker {
        kind: "romfs",
        tool: Tool::new("genromfs", "genromfs"),
        words: &["-d", "{tree}", "-f", "{image}", "{options}"],
        label: field(&["-V", "{}"], 15),
        sectors: Sectors::AtMost(1024),
        filled: FillMethod::ByTool,
        reproducible: Reproducible::No,
        leaves_out: ATTRIBUTES,
        skips: Some(&[]),
        times: 0..=0,
        ..NONE
    },
    FileSystemMaker {
        kind: "cramfs",
        tool: Tool::new("mkfs.cramfs", "util-linux"),
        words: &["{options}", "{tree}", "{image}"],
        label: field(&["-n", "{}"], 15),
        filled: FillMethod::ByTool,
        reproducible: Reproducible::No,
        leaves_out: ATTRIBUTES,
        skips: Some(&[]),
        times: 0..=0,
        owners: [u16::MAX as u32, u8::MAX as u32],
        ..NONE
    },
];

/// Other names of types.
const ALIASES: &[(&str, &str)] = &[
    ("fat", "vfat"),
    ("msdos", "vfat"),
    ("ntfs3", "ntfs"),
    ("iso", "iso9660"),
];

/// Replaces `{}` in the words.
fn said(words: &[&str], text: &str) -> Vec<String> {
    words.iter().map(|word| word.replace("{}", text)).collect()
}

impl FileSystemMaker {
    pub fn find(kind: &str) -> Result<&'static Self> {
        let name = ALIASES
            .iter()
            .find(|(alias, _)| *alias == kind)
            .map_or(kind, |(_, name)| name);
        MAKERS
            .iter()
            .find(|maker| maker.kind == name)
            .ok_or_else(|| {
                let known: Vec<&str> = MAKERS.iter().map(|maker| maker.kind).collect();
                Error::Usage(format!(
                    "cannot make file systems of type {kind}: there are {}",
                    known.join(", ")
                ))
            })
    }

    /// The types whose images are the same each time.
    pub fn reproducible_kinds() -> String {
        let kinds: Vec<&str> = MAKERS
            .iter()
            .filter(|maker| maker.reproducible != Reproducible::No)
            .map(|maker| maker.kind)
            .collect();
        kinds.join(", ")
    }

    pub fn is_ext(&self) -> bool {
        self.kind.starts_with("ext")
    }

    pub fn has_uuid(&self) -> bool {
        self.uuid.is_some()
    }

    fn say(&self, what: &str, field: Option<Field>, text: &str) -> Result<Vec<String>> {
        let kind = self.kind;
        let field = field.ok_or_else(|| {
            Error::Usage(format!(
                "{kind} has no {what} that {} could set",
                self.tool.name
            ))
        })?;
        if text.len() > field.longest {
            return Err(Error::Usage(format!(
                "the {what} \"{text}\" is too long for {kind}: at most {} bytes",
                field.longest
            )));
        }
        Ok(said(field.words, text))
    }

    pub fn say_label(&self, label: &str) -> Result<Vec<String>> {
        self.say("label", self.label, label)
    }

    /// FAT's is of 8 hexadecimal digits, UDF's of 16, all others have UUIDs.
    pub fn say_uuid(&self, uuid: &str) -> Result<Vec<String>> {
        let text = match self.uuid.map(|field| field.longest) {
            Some(UUID) | None => uuid.to_ascii_lowercase(),
            Some(_) => uuid.replace('-', "").to_ascii_lowercase(),
        };
        let digits = text
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        let whole = self.uuid.is_none_or(|field| field.longest == text.len());
        if !digits || !whole {
            return Err(Error::Usage(format!(
                "\"{uuid}\" is not a UUID as {} has it",
                self.kind
            )));
        }
        self.say("UUID", self.uuid, &text)
    }

    /// Whether a device with sectors of this size can hold the type.
    pub fn check_sectors(&self, size: u64) -> Result<()> {
        match self.sectors {
            Sectors::AtMost(most) if size > most => Err(Error::known(
                ErrorKind::Unsupported,
                format!(
                "{} has blocks of {most} bytes, which cannot be on a device with sectors of {size} \
                 bytes",
                self.kind
            ),
            )),
            _ => Ok(()),
        }
    }

    /// Options that tell the tool this size of sectors, unless the user's options do: some tools
    /// take such an option only once.
    pub fn say_sectors(&self, size: u64, options: &[OsString]) -> Vec<String> {
        let Sectors::ByWords(words) = self.sectors else {
            return Vec::new();
        };
        let by_user = |word: &OsString| word.as_bytes().starts_with(words[0].as_bytes());
        if size == FILE_SECTOR || options.iter().any(by_user) {
            Vec::new()
        } else {
            said(words, &size.to_string())
        }
    }

    /// The environment's variable that tells it.
    pub fn sectors_variable(&self, size: u64) -> Option<&'static str> {
        match self.sectors {
            Sectors::ByVariable(name) if size != FILE_SECTOR => Some(name),
            _ => None,
        }
    }

    pub fn say_owner(&self, owner: Owner) -> Result<Vec<String>> {
        let Some((for_user, for_group)) = self.owner else {
            let text = format!(
                "{} cannot give all files one owner in {}",
                self.tool.name, self.kind
            );
            return Err(Error::Usage(text));
        };
        let one = |word: &str, number: Option<u32>| match number {
            Some(number) if word.contains("{}") => vec![word.replace("{}", &number.to_string())],
            Some(number) => vec![word.to_owned(), number.to_string()],
            None => Vec::new(),
        };
        Ok([one(for_user, owner.user), one(for_group, owner.group)].concat())
    }

    /// The word that stands before the path of a file of SELinux labels.
    pub fn labels_word(&self) -> Result<&'static str> {
        self.labels
            .and_then(|word| word.strip_suffix("{}"))
            .ok_or_else(|| {
                Error::Usage(format!(
                    "{} cannot set SELinux labels in {}",
                    self.tool.name, self.kind
                ))
            })
    }

    pub fn words(&self) -> &'static [&'static str] {
        self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_well_formed() {
        for (index, maker) in MAKERS.iter().enumerate() {
            assert!(MAKERS[..index].iter().all(|other| other.kind != maker.kind));
            assert!(maker.words.contains(&"{image}") && maker.words.contains(&"{options}"));
            assert_eq!(
                maker.words.contains(&"{tree}"),
                maker.filled == FillMethod::ByTool
            );
        }
        assert_eq!(FileSystemMaker::find("fat").unwrap().kind, "vfat");
        assert!(FileSystemMaker::find("nonsense").is_err());
    }

    #[test]
    fn labels_and_uuids() {
        let vfat = FileSystemMaker::find("vfat").unwrap();
        assert_eq!(vfat.say_uuid("1234-ABCD").unwrap(), ["-i", "1234abcd"]);
        assert!(vfat.say_uuid("1234-ABCX").is_err());
        assert!(vfat.say_label("ABCDEFGHIJKL").is_err());
        let xfs = FileSystemMaker::find("xfs").unwrap();
        let uuid = "11111111-2222-3333-4444-555555555555";
        assert_eq!(
            xfs.say_uuid(uuid).unwrap(),
            ["-m".to_owned(), format!("uuid={uuid}")]
        );
        let erofs = FileSystemMaker::find("erofs").unwrap();
        let owner = |user, group| Owner { user, group };
        assert_eq!(
            erofs.say_owner(owner(Some(1), Some(2))).unwrap(),
            ["--force-uid=1", "--force-gid=2"]
        );
        let squashfs = FileSystemMaker::find("squashfs").unwrap();
        assert_eq!(
            squashfs.say_owner(owner(None, Some(2))).unwrap(),
            ["-force-gid", "2"]
        );
        assert!(xfs.say_owner(owner(Some(1), Some(2))).is_err());
    }

    #[test]
    fn sectors() {
        let said = |kind, size, options: &[&str]| {
            let options: Vec<OsString> = options.iter().map(OsString::from).collect();
            FileSystemMaker::find(kind)
                .unwrap()
                .say_sectors(size, &options)
        };
        assert_eq!(said("xfs", 4096, &["-m", "rmapbt=1"]), ["-s", "size=4096"]);
        assert!(said("xfs", 512, &[]).is_empty());
        assert!(said("xfs", 4096, &["-ssize=4096"]).is_empty());
        assert!(said("btrfs", 4096, &[]).is_empty());
        let minix = FileSystemMaker::find("minix").unwrap();
        assert!(minix.check_sectors(1024).is_ok() && minix.check_sectors(4096).is_err());
    }
}
