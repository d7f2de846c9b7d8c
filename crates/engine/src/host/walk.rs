//! Referrals: which discovery services to ask, each once, not too deep and not too many. [Base 2.0, 3.1.2.3]
//!
//! [`Walk`] gives the services one after the other and takes their logs; who reads the logs is the driver.

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeSet, VecDeque};

use nvmf_wire::log::discovery::{AddressFamily, DiscoveryEntry, SubsystemType, TransportType};

use super::DiscoveryLog;

/// Referrals nest at most that deep. [DISC-LOG-09]
const DEPTH: u8 = 8;
/// Most services asked in one walk.
const SERVICES: usize = 64;

/// A discovery service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Where it listens.
    pub at: SocketAddr,
    /// Its NQN: the well-known one, or its own.
    pub subnqn: String,
    /// Referrals that led here.
    pub depth: u8,
}

/// A referral that is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It was asked already, or will be.
    Known,
    /// Deeper than referrals may nest.
    Deep,
    /// It leads to another address, which the user did not allow.
    Elsewhere,
    /// Another transport, or an address or port that is none. [TCP-DISC-08]
    Unusable,
    /// As many as are followed at all.
    Many,
}

impl core::fmt::Display for Left {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Known => "asked already",
            Self::Deep => "more than 8 referrals deep",
            Self::Elsewhere => "at another address",
            Self::Unusable => "no address of NVMe/TCP",
            Self::Many => "too many services",
        })
    }
}

/// Where an entry leads over NVMe/TCP: an IP address and a decimal port, padded as stacks do. `None` where it is no such entry, so
/// that a host has nothing to connect to. [TCP-DISC-08]
pub fn address(entry: &DiscoveryEntry) -> Option<SocketAddr> {
    if entry.trtype() != TransportType::TCP {
        return None;
    }
    let (addr, port) = (entry.traddr(), entry.trsvcid());
    let ip: IpAddr = addr.as_str().parse().ok()?;
    let family = if ip.is_ipv4() { AddressFamily::IPV4 } else { AddressFamily::IPV6 };
    let port = port.as_str();
    if entry.adrfam() != family || !port.bytes().all(|b| b.is_ascii_digit()) || port.starts_with('0') {
        return None;
    }
    Some(SocketAddr::new(ip, port.parse().ok()?))
}

/// A walk over discovery services, from one on.
#[derive(Debug)]
pub struct Walk {
    from: IpAddr,
    elsewhere: bool,
    seen: BTreeSet<(SocketAddr, String)>,
    todo: VecDeque<Service>,
}

impl Walk {
    /// From the service that the user named. With `elsewhere` referrals to other addresses are followed too.
    pub fn new(at: SocketAddr, subnqn: impl Into<String>, elsewhere: bool) -> Self {
        let first = Service { at, subnqn: subnqn.into(), depth: 0 };
        let seen = BTreeSet::from([(at, first.subnqn.clone())]);
        Self { from: at.ip(), elsewhere, seen, todo: VecDeque::from([first]) }
    }

    /// The next service to ask.
    pub fn next_service(&mut self) -> Option<Service> {
        self.todo.pop_front()
    }

    /// Takes the log of a service: each referral, with why it is not followed where it is not.
    pub fn take<'a>(&mut self, service: &Service, log: &'a DiscoveryLog) -> Vec<(&'a DiscoveryEntry, Option<Left>)> {
        let referrals = log.entries.iter().filter(|e| e.subtype() == SubsystemType::REFERRAL);
        referrals.map(|e| (e, self.refer(service, e).err())).collect()
    }

    fn refer(&mut self, by: &Service, entry: &DiscoveryEntry) -> Result<(), Left> {
        let at = address(entry).ok_or(Left::Unusable)?;
        let subnqn = entry.subnqn().as_str().to_owned();
        if self.seen.contains(&(at, subnqn.clone())) {
            return Err(Left::Known);
        }
        if at.ip() != self.from && !self.elsewhere {
            return Err(Left::Elsewhere);
        }
        if by.depth >= DEPTH {
            return Err(Left::Deep);
        }
        if self.seen.len() >= SERVICES {
            return Err(Left::Many);
        }
        self.seen.insert((at, subnqn.clone()));
        self.todo.push_back(Service { at, subnqn, depth: by.depth + 1 });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvmf_wire::log::discovery::DiscoveryHeader;
    use nvmf_wire::value::{Ascii, Text};

    const NQN: &str = crate::host::DISCOVERY_NQN;

    fn referral(addr: &str, port: &str) -> DiscoveryEntry {
        DiscoveryEntry::new().with(|s| {
            s.trtype(TransportType::TCP)
                .adrfam(if addr.contains(':') { AddressFamily::IPV6 } else { AddressFamily::IPV4 })
                .subtype(SubsystemType::REFERRAL)
                .traddr(Ascii::new(addr))
                .trsvcid(Ascii::new(port))
                .subnqn(Text::new(NQN))
        })
    }

    fn log(entries: Vec<DiscoveryEntry>) -> DiscoveryLog {
        DiscoveryLog { header: DiscoveryHeader::new().with(|s| s.numrec(entries.len() as u64)), entries }
    }

    fn left(walk: &mut Walk, by: &Service, entry: DiscoveryEntry) -> Option<Left> {
        walk.take(by, &log(vec![entry]))[0].1
    }

    #[test]
    fn a_loop_is_noticed_and_another_address_left_alone() {
        let mut walk = Walk::new("10.0.0.1:8009".parse().unwrap(), NQN, false);
        let first = walk.next_service().unwrap();
        assert_eq!(left(&mut walk, &first, referral("10.0.0.1", "8009")), Some(Left::Known));
        assert_eq!(left(&mut walk, &first, referral("10.0.0.1", "8010")), None);
        assert_eq!(left(&mut walk, &first, referral("10.0.0.1", "8010")), Some(Left::Known));
        assert_eq!(left(&mut walk, &first, referral("10.0.0.2", "8009")), Some(Left::Elsewhere));
        let second = walk.next_service().unwrap();
        assert_eq!((second.at, second.depth), ("10.0.0.1:8010".parse().unwrap(), 1));
        assert_eq!(left(&mut walk, &second, referral("10.0.0.1", "8009")), Some(Left::Known));
        assert_eq!(walk.next_service(), None);
        let mut far = Walk::new("10.0.0.1:8009".parse().unwrap(), NQN, true);
        let first = far.next_service().unwrap();
        assert_eq!(left(&mut far, &first, referral("2001:db8::1", "8009")), None);
    }

    #[test]
    fn neither_too_deep_nor_too_many() {
        let mut walk = Walk::new("10.0.0.1:1".parse().unwrap(), NQN, false);
        for depth in 0..8u32 {
            let service = walk.next_service().unwrap();
            assert_eq!(left(&mut walk, &service, referral("10.0.0.1", &(2 + depth).to_string())), None);
        }
        let last = walk.next_service().unwrap();
        assert_eq!(left(&mut walk, &last, referral("10.0.0.1", "100")), Some(Left::Deep));
        let mut walk = Walk::new("10.0.0.1:1".parse().unwrap(), NQN, false);
        let service = walk.next_service().unwrap();
        let entries = (2..100).map(|n: u32| referral("10.0.0.1", &n.to_string())).collect();
        let log = log(entries);
        let taken = walk.take(&service, &log);
        assert_eq!(taken.iter().filter(|(_, left)| left.is_none()).count(), SERVICES - 1);
        assert_eq!(taken.last().unwrap().1, Some(Left::Many));
    }

    #[test]
    fn an_entry_that_spells_no_port_leads_nowhere() {
        for (addr, port, right) in [
            ("10.0.0.1", "4420", true),
            ("10.0.0.1", "04420", false),
            ("10.0.0.1", "4420x", false),
            ("10.0.0.1", "", false),
            ("10.0.0.1", "0", false),
            ("10.0.0.1", "65536", false),
            ("10.0.0.1", "+20", false),
            ("array", "4420", false),
            ("::1", "4420", true),
        ] {
            assert_eq!(address(&referral(addr, port)).is_some(), right, "{addr} {port}");
        }
        assert_eq!(address(&referral("10.0.0.1", "4420").with(|s| s.trtype(TransportType::RDMA))), None);
        assert_eq!(address(&referral("10.0.0.1", "4420").with(|s| s.adrfam(AddressFamily::IPV6))), None);
    }
}
