//! The player's NIC: [`RdmaNetwork`] over a [`Nic`], or over any other [`PlayedDevice`], in whatever world a [`Wire`] brings.
//!
//! All waiting stands here once. A world that has a [`Desk`] gives it out by `Network::rdma`, and lets it take part when its player
//! sleeps ([`Desk::idle`]).

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use nvmf_seam::rdma::{
    Accepted, Ask, CmEvent, DeviceError, Facts, Happening, Memory, PlayedDevice, QpId, RawPacket, RdmaNetwork, RdmaOpenError,
    Recorded, Rkey, Work,
};
use nvmf_seam::{Instant, LinkId};
use nvmf_wire::Value;

use crate::Nic;

/// How long the answer to a DREQ is waited for when a connection is ended; it is sent again meanwhile as the NIC's settings say.
const PATIENCE: Duration = Duration::from_secs(2);
/// Connections of which what happened and what was recorded is kept; beyond that the oldest that are over are forgotten.
const KEPT: usize = 1024;

/// What a [`Desk`] needs of its world.
pub trait Wire<D = Nic> {
    /// Now, in the player's time.
    fn now(&self) -> Instant;

    /// Sends what the NIC has to send now ([`Nic::poll_datagram`] until it gives `None`), without letting time pass.
    fn flush(&mut self, nic: &mut D);

    /// Flushes, then lets the world go on until something was handed to the NIC (a packet, or a timeout that it had asked for), or until
    /// `until`; flushes again. False where the time is over and nothing more came.
    fn step(&mut self, nic: &mut D, until: Instant) -> bool;

    /// A number for a connection, of the same row as the other links of the world.
    fn next_link(&mut self) -> LinkId;
}

#[derive(Debug)]
struct Link {
    /// `None` once it is over.
    qp: Option<QpId>,
    waiting: VecDeque<Happening>,
    /// Kept from when it was over.
    recorded: Vec<Recorded>,
}

/// A player's NIC in a world. What is recorded of connections is bounded by `NicSettings::record`, which is 0 by default: a world
/// that shows traces raises it.
#[derive(Debug)]
pub struct Desk<W, D = Nic> {
    nic: D,
    wire: W,
    links: BTreeMap<LinkId, Link>,
    by_qp: BTreeMap<QpId, LinkId>,
    unopened: Vec<Recorded>,
}

impl<W: Wire<D>, D: PlayedDevice> Desk<W, D> {
    /// `nic` at the player's end of `wire`.
    pub fn new(nic: D, wire: W) -> Self {
        Self { nic, wire, links: BTreeMap::new(), by_qp: BTreeMap::new(), unopened: Vec::new() }
    }

    /// The world's part.
    pub fn wire(&mut self) -> &mut W {
        &mut self.wire
    }

    /// The world's part, to be looked at.
    pub fn wire_ref(&self) -> &W {
        &self.wire
    }

    /// Both parts, for a world whose player has more than RDMA and lets time pass by itself.
    pub fn apart(&mut self) -> (&mut D, &mut W) {
        (&mut self.nic, &mut self.wire)
    }

    /// The NIC.
    pub fn nic(&self) -> &D {
        &self.nic
    }

    /// Lets time pass until `until`; what happens meanwhile waits for [`RdmaNetwork::next`].
    pub fn idle(&mut self, until: Instant) {
        while self.wire.step(&mut self.nic, until) {
            self.sort();
        }
        self.sort();
    }

    /// Gives what happened to its connections.
    fn sort(&mut self) {
        while let Some((qp, what)) = self.nic.poll_happening() {
            if let Some(link) = self.by_qp.get(&qp).and_then(|l| self.links.get_mut(l)) {
                link.waiting.push_back(what);
            }
        }
    }

    fn qp(&self, link: LinkId) -> Option<QpId> {
        self.links.get(&link)?.qp
    }

    /// Waits for the answer to a REQ.
    fn answer(&mut self, qp: QpId, until: Instant) -> Result<Accepted, RdmaOpenError> {
        loop {
            while let Some((of, what)) = self.nic.poll_happening() {
                match what {
                    Happening::Cm(CmEvent::Accepted(accepted)) if of == qp => return Ok(accepted),
                    Happening::Cm(CmEvent::Rejected { reason, private }) if of == qp => {
                        return Err(RdmaOpenError::Rejected { reason, private });
                    }
                    Happening::Cm(_) if of == qp => return Err(RdmaOpenError::Timeout),
                    what => {
                        if let Some(link) = self.by_qp.get(&of).and_then(|l| self.links.get_mut(l)) {
                            link.waiting.push_back(what);
                        }
                    }
                }
            }
            if !self.wire.step(&mut self.nic, until) && self.wire.now() >= until {
                return Err(RdmaOpenError::Timeout);
            }
        }
    }

    /// Forgets a connection; what happened and what was recorded is kept.
    fn close(&mut self, link: LinkId, qp: QpId) {
        self.sort();
        if let Some(l) = self.links.get_mut(&link) {
            l.qp = None;
            l.recorded = self.nic.recorded(qp);
        }
        self.by_qp.remove(&qp);
        self.nic.destroy(self.wire.now(), qp);
        self.wire.flush(&mut self.nic);
        let oldest = self.links.iter().find(|(_, l)| l.qp.is_none()).map(|(id, _)| *id);
        if let Some(id) = oldest.filter(|_| self.links.len() > KEPT) {
            self.links.remove(&id);
        }
    }
}

impl<W: Wire<D>, D: PlayedDevice> RdmaNetwork for Desk<W, D> {
    fn open_rdma(
        &mut self,
        to: SocketAddr,
        ask: &Ask,
        with: &[(String, Value)],
        patience: Duration,
    ) -> Result<(LinkId, Accepted), RdmaOpenError> {
        let now = self.wire.now();
        let qp = self.nic.connect_with(now, to, ask, with).map_err(|e| RdmaOpenError::Other(e.to_string()))?;
        match self.answer(qp, now + patience) {
            Ok(accepted) => {
                let link = self.wire.next_link();
                self.nic.observe(qp, true);
                self.links.insert(link, Link { qp: Some(qp), waiting: VecDeque::new(), recorded: Vec::new() });
                self.by_qp.insert(qp, link);
                // RTU is out before anything else.
                self.wire.flush(&mut self.nic);
                Ok((link, accepted))
            }
            Err(why) => {
                self.unopened = self.nic.recorded(qp);
                self.nic.destroy(self.wire.now(), qp);
                Err(why)
            }
        }
    }

    fn post(&mut self, link: LinkId, work: Work) -> Result<(), DeviceError> {
        let qp = self.qp(link).ok_or(DeviceError::State)?;
        self.nic.post(self.wire.now(), qp, work)?;
        self.wire.flush(&mut self.nic);
        Ok(())
    }

    fn next(&mut self, link: LinkId, until: Instant) -> Option<Happening> {
        loop {
            self.sort();
            let l = self.links.get_mut(&link)?;
            if let Some(what) = l.waiting.pop_front() {
                return Some(what);
            }
            l.qp?;
            if !self.wire.step(&mut self.nic, until) && self.wire.now() >= until {
                self.sort();
                return self.links.get_mut(&link)?.waiting.pop_front();
            }
        }
    }

    fn end(&mut self, link: LinkId, silent: bool) {
        let Some(qp) = self.qp(link) else { return };
        if !silent {
            let now = self.wire.now();
            self.nic.disconnect(now, qp);
            while !self.nic.is_over(qp) && (self.wire.step(&mut self.nic, now + PATIENCE) || self.wire.now() < now + PATIENCE) {
                self.sort();
            }
        }
        self.close(link, qp);
    }

    fn deregister(&mut self, key: Rkey) -> Option<Memory> {
        self.nic.deregister(key)
    }

    fn peek(&mut self, key: Rkey) -> Option<Bytes> {
        self.nic.peek(key)
    }

    fn facts(&mut self, link: LinkId) -> Option<Facts> {
        let qp = self.qp(link)?;
        self.nic.facts(qp)
    }

    fn inject(&mut self, link: LinkId, packet: RawPacket) -> Result<(), DeviceError> {
        let qp = self.qp(link).ok_or(DeviceError::State)?;
        self.nic.inject(qp, packet)?;
        self.wire.flush(&mut self.nic);
        Ok(())
    }

    fn inject_to(&mut self, to: IpAddr, packet: RawPacket) -> Result<(), DeviceError> {
        self.nic.inject_to(to, packet)?;
        self.wire.flush(&mut self.nic);
        Ok(())
    }

    fn skip_psns(&mut self, link: LinkId, by: u32) {
        if let Some(qp) = self.qp(link) {
            self.nic.skip_psns(qp, by);
        }
    }

    fn mute(&mut self, link: LinkId, on: bool) {
        if let Some(qp) = self.qp(link) {
            self.nic.mute(qp, on);
        }
    }

    fn recorded(&mut self, link: LinkId) -> Vec<Recorded> {
        match self.qp(link) {
            Some(qp) => self.nic.recorded(qp),
            None => self.links.get(&link).map(|l| l.recorded.clone()).unwrap_or_default(),
        }
    }

    fn recorded_unopened(&mut self) -> Vec<Recorded> {
        self.unopened.clone()
    }
}
