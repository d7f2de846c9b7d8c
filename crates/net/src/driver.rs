//! What moves an RDMA device in the real world, and where one comes from.
//!
//! A [`Driver`] is between a device and what it is fed by: a software NIC's packets ([`crate::roce::Line`]), or what hardware tells. A
//! [`NicSource`] opens the two together, for a target or for a player; [`crate::roce::Way`] is one, and programs bring others.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use nvmf_engine::RdmaSettings;
use nvmf_seam::Instant;

use crate::RealNetwork;
use crate::target::ServedDevice;

/// Moves a device. No call waits; the descriptor (`AsFd`) is readable when something came.
pub trait Driver<D>: AsFd + Send {
    /// The device's address.
    fn address(&self) -> IpAddr;

    /// Gives the device what came and what is due, and sends what it has.
    fn turn(&mut self, now: Instant, device: &mut D) -> io::Result<Turn>;

    /// Sends what the device has, as far as it goes.
    fn send(&mut self, now: Instant, device: &mut D) -> io::Result<()>;

    /// When the next turn is due, whatever comes.
    fn due(&self, now: Instant, device: &mut D) -> Option<Instant>;

    /// Shows packets to `tap` from now on, where there are packets to be seen.
    fn tap(&mut self, tap: PacketTap);
}

/// Is shown each packet that came and each that goes, from the IP header to the ICRC.
pub type PacketTap = Box<dyn FnMut(&[u8]) + Send>;

/// What a turn did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Something came.
    pub came: bool,
    /// More may be there.
    pub more: bool,
}

/// Where RDMA devices come from. Its text names it, and is the same for two sources of the same devices. Errors are one line for a user.
pub trait NicSource: fmt::Debug + fmt::Display + Send + Sync {
    /// The address of its device, where that does not depend on who asks.
    fn address(&self) -> Option<IpAddr>;

    /// The device that has an address, for a target.
    fn at(&self, address: IpAddr, settings: &RdmaSettings) -> io::Result<ServedDevice>;

    /// Gives `network` the device by which a peer is reached. Packets are shown to `tap`; without them it is an error.
    fn equip(&self, network: RealNetwork, peer: IpAddr, tap: Option<PacketTap>) -> io::Result<RealNetwork>;
}
