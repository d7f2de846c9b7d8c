//! `--nic verbs:DEVICE`: an RDMA device of this machine, or soft-RoCE of its kernel.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nvmf_engine::RdmaSettings;
use nvmf_net::driver::{PacketTap, Turn};
use nvmf_net::roce::address_towards;
use nvmf_net::target::ServedDevice;
use nvmf_net::{Driver, NicSource, RealNetwork};
use nvmf_seam::Instant;
use nvmf_verbs::{Settings, VerbsDevice};

/// A device by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named(pub String);

impl Named {
    fn open(&self, address: IpAddr) -> io::Result<(Hardware, VerbsDevice)> {
        let settings = Settings { address: Some(address), ..Settings::of(&self.0) };
        let device = VerbsDevice::open(settings).map_err(|e| io::Error::other(format!("--nic {self}: {e}")))?;
        Ok((Hardware { readable: device.as_fd().try_clone_to_owned()?, address }, device))
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "verbs:{}", self.0)
    }
}

impl NicSource for Named {
    fn address(&self) -> Option<IpAddr> {
        None
    }

    fn at(&self, address: IpAddr, settings: &RdmaSettings) -> io::Result<ServedDevice> {
        let (hardware, device) = self.open(address)?;
        ServedDevice::new(hardware, device, settings)
    }

    fn equip(&self, network: RealNetwork, peer: IpAddr, tap: Option<PacketTap>) -> io::Result<RealNetwork> {
        if tap.is_some() {
            return Err(io::Error::other(format!(
                "--nic {self}: the packets of an RDMA device cannot be seen, and so not be judged"
            )));
        }
        let address = address_towards(peer).map_err(|e| io::Error::other(format!("there is no route to {peer}: {e}")))?;
        let (hardware, device) = self.open(address)?;
        Ok(network.with_device(hardware, device))
    }
}

/// Hardware moves itself: what is left is to take in what it tells.
struct Hardware {
    /// The device's descriptor once more.
    readable: OwnedFd,
    address: IpAddr,
}

impl AsFd for Hardware {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

impl Driver<VerbsDevice> for Hardware {
    fn address(&self) -> IpAddr {
        self.address
    }

    fn turn(&mut self, _now: Instant, device: &mut VerbsDevice) -> io::Result<Turn> {
        Ok(Turn { came: device.turn(), more: false })
    }

    fn send(&mut self, _now: Instant, _device: &mut VerbsDevice) -> io::Result<()> {
        Ok(())
    }

    fn due(&self, now: Instant, device: &mut VerbsDevice) -> Option<Instant> {
        device.has_events().then_some(now)
    }

    fn tap(&mut self, _tap: PacketTap) {}
}
