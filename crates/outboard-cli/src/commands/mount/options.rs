// SPDX-License-Identifier: GPL-2.0-only
//! The options after `-o`: words separated by commas, as mount(8) hands them over from fstab.

use outboard_error::size::parse_size;
use outboard_error::{Error, Result};
use outboard_fuse::owners::IdMap;
use outboard_volume::host_mounts::Flags;
use outboard_volume::options::Options as VolumeOptions;

/// How the host mounts the file system, and whose the files are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// It is mounted already, and the host shall use it in another way.
    pub remount: bool,
    pub read_only: bool,
    /// It shall not become read-only by itself.
    pub writable: bool,
    /// Each change is on stable storage when its call returns: all of them, or those of
    /// directories.
    pub sync: bool,
    pub dirsync: bool,
    pub allow_other: bool,
    /// The host's kernel checks permissions, by the owners and modes of the image.
    pub default_permissions: bool,
    /// Set-user-ID bits and devices of the image count. Only root's mounts can have them.
    pub suid: bool,
    pub dev: bool,
    pub noexec: bool,
    /// The owner of new files, if not the user who makes them.
    pub user: Option<u32>,
    pub group: Option<u32>,
    pub users: IdMap,
    pub groups: IdMap,
    pub kind: Option<String>,
    pub memory: Option<u64>,
    /// Virtual CPUs. Each serves one request at a time: threads that share one wait for each other
    /// much longer than the requests take.
    pub vcpus: Option<u32>,
}

/// Words that are for mount(8) and fstab's other readers, or say what is so anyway.
fn is_for_others(word: &str) -> bool {
    const WORDS: [&str; 25] = [
        "defaults",
        "auto",
        "noauto",
        "user",
        "nouser",
        "users",
        "owner",
        "group",
        "nofail",
        "_netdev",
        "atime",
        "noatime",
        "relatime",
        "norelatime",
        "diratime",
        "nodiratime",
        "nostrictatime",
        "silent",
        "loud",
        "mand",
        "nomand",
        "iversion",
        "noiversion",
        "lazytime",
        "nolazytime",
    ];
    const BEGINNINGS: [&str; 5] = ["x-", "X-", "comment=", "fsname=", "subtype="];
    WORDS.contains(&word) || BEGINNINGS.iter().any(|start| word.starts_with(start))
}

/// Words of the host's kernel, which mount(8) repeats when it mounts again.
fn is_of_kernel(word: &str) -> bool {
    const BEGINNINGS: [&str; 4] = ["user_id=", "group_id=", "max_read=", "blksize="];
    BEGINNINGS.iter().any(|start| word.starts_with(start))
}

fn number<T: std::str::FromStr>(word: &str, value: &str) -> Result<T> {
    value
        .parse()
        .map_err(|_| Error::Usage(format!("-o {word}: \"{value}\" is not a number")))
}

/// A user or a group; the last number means "none" everywhere.
fn id(word: &str, value: &str) -> Result<u32> {
    match number(word, value)? {
        u32::MAX => Err(Error::Usage(format!(
            "-o {word}: there is no user or group {value}"
        ))),
        id => Ok(id),
    }
}

fn memory(value: &str) -> Result<u64> {
    parse_size(value).map_err(|why| Error::Usage(format!("-o memory: {why}")))
}

fn vcpus(value: &str) -> Result<u32> {
    let count = number("vcpus", value)?;
    match count {
        1..=64 => Ok(count),
        _ => Err(Error::Usage(format!("-o vcpus={value}: write 1 to 64"))),
    }
}

/// Some more than the host's processors, since requests also wait for the disk.
fn vcpus_for(processors: usize) -> u32 {
    (2 * processors).clamp(4, 16) as u32
}

fn default_vcpus() -> u32 {
    vcpus_for(std::thread::available_parallelism().map_or(1, |count| count.get()))
}

impl Options {
    /// Understands the operands of all `-o`.
    pub fn parse(lists: &[String]) -> Result<Self> {
        let words = || lists.iter().flat_map(|list| list.split(','));
        let mut options = Self {
            remount: words().any(|word| word == "remount"),
            ..Self::default()
        };
        for word in words().filter(|word| !word.is_empty()) {
            options.word(word)?;
        }
        Ok(options)
    }

    fn word(&mut self, word: &str) -> Result<()> {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "ro" => (self.read_only, self.writable) = (true, false),
            "rw" => (self.read_only, self.writable) = (false, true),
            "sync" => self.sync = true,
            "async" => self.sync = false,
            "dirsync" => self.dirsync = true,
            "allow_other" => self.allow_other = true,
            "default_permissions" => self.default_permissions = true,
            // mount(8) keeps "suid" and "dev" to itself.
            "suid" | "allow_suid" => self.suid = true,
            "nosuid" => self.suid = false,
            "dev" | "allow_dev" => self.dev = true,
            "nodev" => self.dev = false,
            "exec" => self.noexec = false,
            "noexec" => self.noexec = true,
            "uid" => self.user = Some(id(name, value)?),
            "gid" => self.group = Some(id(name, value)?),
            "idmap" => self.id_map(value)?,
            "type" => self.kind = Some(value.to_owned()),
            "memory" => self.memory = Some(memory(value)?),
            "vcpus" => self.vcpus = Some(vcpus(value)?),
            "remount" => {}
            _ if is_for_others(word) || self.remount && is_of_kernel(word) => {}
            _ => {
                return Err(Error::Usage(format!(
                    "-o {word}: no such option (see outboard help mount)"
                )))
            }
        }
        Ok(())
    }

    /// "u:IMAGE:HOST:COUNT g:IMAGE:HOST:COUNT", with spaces between; "b" is for both.
    fn id_map(&mut self, value: &str) -> Result<()> {
        let wrong = || {
            Error::Usage(format!(
                "-o idmap={value}: write u:IMAGE-ID:HOST-ID:COUNT, or g: for groups, or b: for both"
            ))
        };
        for range in value.split_whitespace() {
            let (kind, numbers) = range.split_once(':').ok_or_else(wrong)?;
            let added = match kind {
                "u" => self.users.add(numbers),
                "g" => self.groups.add(numbers),
                "b" => self
                    .users
                    .add(numbers)
                    .and_then(|()| self.groups.add(numbers)),
                _ => None,
            };
            added.ok_or_else(wrong)?;
        }
        Ok(())
    }

    /// Users or groups of the image are others on the host.
    pub fn is_mapped(&self) -> bool {
        !self.users.is_identity() || !self.groups.is_identity()
    }

    /// All but the settings of the kernel, as one operand of `-o`.
    pub fn to_list(&self) -> String {
        let mut words = Vec::new();
        let switches = [
            (self.read_only, "ro"),
            (self.sync, "sync"),
            (self.dirsync, "dirsync"),
            (self.allow_other, "allow_other"),
            (self.default_permissions, "default_permissions"),
            (self.suid, "suid"),
            (self.dev, "dev"),
            (self.noexec, "noexec"),
        ];
        for (on, word) in switches {
            words.extend(on.then(|| word.to_owned()));
        }
        words.extend(self.user.map(|id| format!("uid={id}")));
        words.extend(self.group.map(|id| format!("gid={id}")));
        for (map, kind) in [(&self.users, "u"), (&self.groups, "g")] {
            if !map.is_identity() {
                words.push(format!("idmap={}", map.to_words(kind)));
            }
        }
        words.join(",")
    }

    /// The flags of the host's mount.
    pub fn flags(&self) -> Flags {
        Flags {
            read_only: self.read_only,
            allow_other: self.allow_other,
            default_permissions: self.default_permissions,
            suid: self.suid,
            dev: self.dev,
            noexec: self.noexec,
        }
    }

    /// Settings of the kernel: the command line goes before `-o`.
    pub fn settings(&self, given: &VolumeOptions) -> VolumeOptions {
        VolumeOptions {
            kind: given.kind.clone().or_else(|| self.kind.clone()),
            read_only: given.read_only || self.read_only,
            vcpus: given.vcpus.or(self.vcpus).or_else(|| Some(default_vcpus())),
            memory: given.memory.or(self.memory),
            ..given.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options> {
        Options::parse(&[text.to_owned()])
    }

    #[test]
    fn the_last_word_counts() {
        let options = parse("ro,suid,nosuid,dev,uid=5,,noauto,x-systemd.automount").unwrap();
        assert!(options.read_only && !options.suid && options.dev);
        assert_eq!((options.user, options.group), (Some(5), None));
        let options = parse("allow_suid,nodev,allow_dev").unwrap();
        assert!(options.suid && options.dev);
    }

    #[test]
    fn read_only_or_not() {
        for (text, read_only, writable) in [
            ("", false, false),
            ("ro", true, false),
            ("ro,rw", false, true),
            ("rw,ro", true, false),
        ] {
            let options = parse(text).unwrap();
            assert_eq!((options.read_only, options.writable), (read_only, writable));
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for bad in [
            "rO",
            "uid=",
            "uid=x",
            "gid=-1",
            "uid=4294967295",
            "gid=4294967295",
            "strictatime",
            "idmap=u:1:2",
            "idmap=x:0:0:1",
            "idmap=u:0:4294967295:2",
            "vcpus=a",
            "vcpus=65",
            "threads=4",
            "memory=1X",
            "user_id=0",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn vcpus_by_the_number_of_processors() {
        for (processors, count) in [(1, 4), (2, 4), (3, 6), (8, 16), (9, 16), (1000, 16)] {
            assert_eq!(vcpus_for(processors), count);
        }
    }

    #[test]
    fn written_and_read_again() {
        let text =
            "ro,sync,dirsync,allow_other,dev,uid=5,gid=6,idmap=u:0:1000:1 u:1:5:9,idmap=g:7:8:9";
        let options = parse(text).unwrap();
        assert_eq!(options.to_list(), text);
    }

    #[test]
    fn mounted_again() {
        let options = parse("ro,nosuid,relatime,user_id=0,max_read=4096,remount").unwrap();
        assert!(options.remount && options.read_only);
        assert!(!options.to_list().contains("remount"));
    }

    #[test]
    fn id_maps() {
        let options = parse("idmap=b:0:1000:1 u:1:100000:65535").unwrap();
        assert_eq!(options.users.to_host(0), Some(1000));
        assert_eq!(options.users.to_image(100_001), Some(2));
        assert_eq!(options.groups.to_host(1), None);
    }
}
