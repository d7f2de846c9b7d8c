//! `--nic`: how RDMA goes out, by a software NIC of ours or by an RDMA device of this machine.

#[cfg(feature = "verbs")]
mod verbs;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::str::FromStr;

use nvmf_engine::RdmaSettings;
use nvmf_net::driver::PacketTap;
use nvmf_net::roce::Way;
use nvmf_net::target::ServedDevice;
use nvmf_net::{NicSource, RealNetwork};

/// What `--help` says of it.
pub const HELP: &str = "How RDMA goes out. RoCEv2 without an RDMA device: udp (port 4791), raw:INTERFACE, raw:INTERFACE:ADDRESS or \
                        qemu:OUR-PORT:ITS-PORT:ADDRESS. Of target and host by a device: verbs:DEVICE, such as verbs:mlx5_0 or \
                        verbs:rxe0, in a program that was built with `--features verbs`";

/// How RDMA goes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nic {
    /// RoCEv2 of a software NIC.
    Way(Way),
    /// An RDMA device.
    #[cfg(feature = "verbs")]
    Device(verbs::Named),
}

impl Default for Nic {
    fn default() -> Self {
        Self::Way(Way::Udp)
    }
}

impl Nic {
    /// TCP does not go where its frames go.
    pub fn is_apart(&self) -> bool {
        matches!(self, Self::Way(Way::Qemu { .. }))
    }

    /// Its packets can be seen.
    pub fn shows_packets(&self) -> bool {
        matches!(self, Self::Way(_))
    }

    fn source(&self) -> &dyn NicSource {
        match self {
            Self::Way(way) => way,
            #[cfg(feature = "verbs")]
            Self::Device(device) => device,
        }
    }
}

impl FromStr for Nic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            #[cfg(feature = "verbs")]
            Some(("verbs", device)) if !device.is_empty() => Ok(Self::Device(verbs::Named(device.to_owned()))),
            #[cfg(not(feature = "verbs"))]
            Some(("verbs", _)) => {
                Err("this program knows no RDMA devices: `cargo build --release -p nvmfspec --features verbs` makes one \
                                       that does (Debian: librdmacm-dev, libibverbs-dev, libclang-14-dev)"
                    .into())
            }
            _ => text.parse().map(Self::Way).map_err(|e: String| format!("{e}, or verbs:DEVICE")),
        }
    }
}

impl fmt::Display for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.source(), f)
    }
}

impl NicSource for Nic {
    fn address(&self) -> Option<IpAddr> {
        self.source().address()
    }

    fn at(&self, address: IpAddr, settings: &RdmaSettings) -> io::Result<ServedDevice> {
        self.source().at(address, settings)
    }

    fn equip(&self, network: RealNetwork, peer: IpAddr, tap: Option<PacketTap>) -> io::Result<RealNetwork> {
        self.source().equip(network, peer, tap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_ways_are_told_apart() {
        assert_eq!("udp".parse(), Ok(Nic::default()));
        assert!("qemu:1:2:10.0.0.1".parse::<Nic>().is_ok_and(|nic| nic.is_apart() && nic.shows_packets()));
        let wrong = "tcp".parse::<Nic>().unwrap_err();
        assert!(wrong.ends_with("or verbs:DEVICE"), "{wrong}");
        let device = "verbs:rxe0".parse::<Nic>();
        if cfg!(feature = "verbs") {
            assert_eq!(device.map(|nic| (nic.to_string(), nic.shows_packets())), Ok(("verbs:rxe0".into(), false)));
        } else {
            assert!(device.is_err_and(|e| e.contains("--features verbs") && !e.contains('\n')));
        }
    }
}
