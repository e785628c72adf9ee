// SPDX-License-Identifier: GPL-2.0-only
//! Network interfaces that a program adds to a kernel: taps, hubs, rootless NAT, back-ends in other
//! processes, captures.

use crate::kernel::Kernel;
use crate::kernel_files::read_text;
use outboard_sys::limited;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::sync::Arc;

/// A network interface of a kernel. It is removed when its last clone is dropped.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// let kernel = outboard::Kernel::builder().boot()?;
/// let interface = kernel.add_interface("user,dhcp")?;
/// println!("{} is up", interface.name());
/// let _connection = kernel.net().tcp_connect("10.0.2.2:80")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Interface {
    shared: Arc<SharedInterface>,
}

struct SharedInterface {
    kernel: Kernel,
    number: i32,
    name: String,
}

impl Drop for SharedInterface {
    fn drop(&mut self) {
        // After a halt it is gone already.
        let _ = self.kernel.instance().remove_interface(self.number);
    }
}

impl fmt::Debug for Interface {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Interface")
            .field(&self.name())
            .finish()
    }
}

impl Interface {
    /// Its name in the kernel, as in "eth0".
    pub fn name(&self) -> &str {
        &self.shared.name
    }
}

/// Does an interface of this description need a kernel with
/// [`Builder::shared_memory`](crate::Builder::shared_memory)?
pub fn needs_shared_memory(description: &str) -> bool {
    description.starts_with("vhost-user:")
}

impl Kernel {
    /// Adds a network interface, as in "tap:tap0,ip=10.0.0.2/24,gw=10.0.0.1" or "user,dhcp".
    /// docs/net.md has all words. The error says which word is wrong, or what the host or a server
    /// refused; then nothing has changed. Blocks while it waits for an address.
    pub fn add_interface(&self, description: &str) -> io::Result<Interface> {
        let description = CString::new(description)?;
        let add = || self.instance().add_interface(&description);
        let (number, name) = limited(self.instance(), false, add)?;
        Ok(Interface {
            shared: Arc::new(SharedInterface {
                kernel: self.clone(),
                number,
                name,
            }),
        })
    }

    /// The name servers of its interfaces, as the text of resolv.conf(5). Empty: there are none.
    pub fn name_servers(&self) -> String {
        read_text(self.system(), c"/etc/resolv.conf").unwrap_or_default()
    }

    /// Changes an interface that exists, "lo" too: the words of [`Kernel::add_interface`] that are
    /// not about devices, as in "ip=10.0.0.3/24,mtu=1400".
    pub fn configure_interface(&self, name: &str, changes: &str) -> io::Result<()> {
        self.instance()
            .configure_interface(&CString::new(name)?, &CString::new(changes)?)
    }
}
