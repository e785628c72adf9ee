// SPDX-License-Identifier: GPL-2.0-only
//! The two ends of a copy of bytes, as the user names them.

use outboard::BlockDevice;
use outboard_error::format::{escaped, size as size_text};
use outboard_error::{Error, Result};
use outboard_volume::address::ImageName;
use outboard_volume::session::{Session, WantedDevice};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A source or destination of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A partition or another volume of an image.
    Volume(ImageName),
    /// A file of the host.
    File(PathBuf),
    /// Standard input or output.
    Standard,
}

impl End {
    /// The end that an operand of the host means.
    pub fn of_host(operand: &OsStr) -> Self {
        match operand.as_bytes() {
            b"-" => Self::Standard,
            _ => Self::File(PathBuf::from(operand)),
        }
    }

    /// The end as the user would write it.
    pub fn operand(&self) -> Vec<u8> {
        match self {
            Self::Volume(name) => name.operand(),
            Self::File(path) => path.as_os_str().as_bytes().to_vec(),
            Self::Standard => b"-".to_vec(),
        }
    }

    /// The same error, of this end unless it is of a file already.
    pub fn named_by(&self, error: Error) -> Error {
        match self {
            Self::Standard => error,
            _ => error.about(self.operand()),
        }
    }

    pub fn volume(&self) -> Option<&ImageName> {
        match self {
            Self::Volume(name) => Some(name),
            _ => None,
        }
    }
}

/// How a file is shown in messages.
pub fn shown(path: &Path) -> String {
    escaped(path.as_os_str().as_bytes())
}

/// A volume as a block device, with the name under which the user knows the volume.
pub struct Device {
    pub device: BlockDevice,
    pub shown: String,
}

impl Device {
    pub fn size(&self) -> Result<u64> {
        let size = self.device.size();
        size.map_err(|error| Error::failed(format!("cannot read {}", self.shown), &error))
    }
}

pub fn open_device(session: &mut Session, name: &ImageName, write: bool) -> Result<Device> {
    let (device, found) = session.block_device(name, WantedDevice::Itself, write)?;
    let shown = found.shown();
    Ok(Device { device, shown })
}

pub fn both(bytes: u64) -> String {
    format!("{} ({bytes} bytes)", size_text(bytes))
}

pub fn cannot_read(shown: &str, error: &std::io::Error) -> Error {
    Error::failed(format!("cannot read {shown}"), error)
}
