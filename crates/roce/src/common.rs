//! What all connections of a NIC share.

use std::collections::VecDeque;

use nvmf_seam::rdma::{Happening, QpId};
use nvmf_seam::{Entropy, SplitMix64};

use crate::counters::Counters;
use crate::memory::Regions;
use crate::packet::Flow;
use crate::pool::Pool;
use crate::{Datagram, NicSettings};

#[derive(Debug)]
pub(crate) struct Core {
    pub settings: NicSettings,
    pub rng: SplitMix64,
    pub counters: Counters,
    pub regions: Regions,
    pub pool: Pool,
    /// For the consumer, oldest first.
    pub events: VecDeque<(QpId, Happening)>,
    /// Packets that were shown among them.
    pub shown: usize,
    /// What goes out before packets of queue pairs: CM messages, CNPs, NAKs of queue pairs that are gone, injected packets.
    pub control: VecDeque<(Option<QpId>, Datagram)>,
}

impl Core {
    pub(crate) fn new(settings: NicSettings, seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let regions = Regions::new(settings.max_regions, settings.bounce, &mut rng);
        Self {
            settings,
            rng,
            counters: Counters::default(),
            regions,
            pool: Pool::default(),
            events: VecDeque::new(),
            shown: 0,
            control: VecDeque::new(),
        }
    }

    pub(crate) fn tell(&mut self, qp: QpId, what: Happening) {
        self.events.push_back((qp, what));
    }

    pub(crate) fn next_event(&mut self) -> Option<(QpId, Happening)> {
        let event = self.events.pop_front()?;
        self.shown -= usize::from(matches!(event.1, Happening::Packet(_)));
        Some(event)
    }

    /// Nothing more is heard of a connection.
    pub(crate) fn forget_events(&mut self, qp: QpId) {
        self.events.retain(|(q, _)| *q != qp);
        self.shown = self.events.iter().filter(|(_, e)| matches!(e, Happening::Packet(_))).count();
    }

    /// Queues a datagram; false where the queue is full.
    pub(crate) fn push_control(&mut self, qp: Option<QpId>, datagram: Datagram) -> bool {
        if self.control.len() >= self.settings.max_control {
            self.counters.control_full += 1;
            return false;
        }
        self.control.push_back((qp, datagram));
        true
    }

    /// Headers of packets that belong to no queue pair's flow: never marked ECT.
    pub(crate) fn control_flow(&self, to: core::net::IpAddr, dscp: u8, entropy: u32) -> Option<Flow> {
        Flow::new(&self.settings, to, dscp << 2, entropy)
    }

    /// PSN for the first request of the other side.
    pub(crate) fn first_psn(&mut self) -> u32 {
        let chance = self.random24();
        self.settings.first_psn.unwrap_or(chance) & 0x00ff_ffff
    }

    /// 24 bits by chance.
    pub(crate) fn random24(&mut self) -> u32 {
        self.rng.below(1 << 24) as u32
    }
}
