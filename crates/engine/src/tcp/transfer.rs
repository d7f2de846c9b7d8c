//! Data from the host through R2T and H2CData. [NVMe/TCP 1.0, 3.3.2.2]

use bytes::Bytes;
use nvmf_wire::tcp::{Fes, H2cData};
use nvmf_wire::{Cid, Status};

use super::carrier::Carrier;
use super::controller::ControllerConnection;
use super::judge::Fault;
use super::send::Out;
use crate::queue::{Gather, State, Table};

/// A command whose data is on its way.
#[derive(Debug)]
pub(super) struct Receive {
    /// Bytes of the command's data.
    len: usize,
    /// Bytes asked for so far: the next R2TO.
    asked: usize,
    /// Bytes received: the next DATAO.
    got: usize,
    /// R2Ts outstanding.
    r2ts: u32,
    /// No data digest was wrong.
    intact: bool,
    gather: Gather,
}

impl Receive {
    /// Nothing asked for yet of `len` bytes.
    pub fn new(len: usize) -> Self {
        Self { len, asked: 0, got: 0, r2ts: 0, intact: true, gather: Gather::default() }
    }
}

/// One R2T that was not satisfied yet.
#[derive(Debug)]
struct Window {
    cid: Cid,
    start: usize,
    len: usize,
    got: usize,
    /// False where the command ended early: its data is still taken, and dropped. [TCP-SILENT-20]
    live: bool,
}

/// The R2Ts of a connection by their tags.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    windows: Table<u16, Window>,
    next: u16,
}

/// R2Ts of ended commands that are remembered; when there are so many, no further command is aborted.
const ABANDONED_MAX: usize = 256;

impl Transfers {
    /// Windows held.
    pub fn len(&self) -> usize {
        self.windows.len()
    }

    /// A tag that is not in use. [TCP-R2T-19]
    fn open(&mut self, w: Window) -> Option<u16> {
        if self.windows.len() > usize::from(u16::MAX) / 2 {
            return None;
        }
        while self.windows.contains(self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let tag = self.next;
        self.next = self.next.wrapping_add(1);
        self.windows.insert(tag, w);
        Some(tag)
    }

    /// A command ends before all its data came. False where that would have to be remembered for too many.
    pub fn abandon(&mut self, cid: Cid) -> bool {
        if self.windows.iter().filter(|(_, w)| !w.live).count() >= ABANDONED_MAX {
            return false;
        }
        for w in self.windows.values_mut().filter(|w| w.live && w.cid == cid) {
            w.live = false;
        }
        true
    }

    /// See [`ControllerConnection::handle_timeout`].
    pub fn rest(&mut self) {
        self.windows.rest();
    }
}

impl Carrier {
    /// Sends R2Ts as far as MAXR2T allows. [TCP-R2T-02 to TCP-R2T-05, TCP-R2T-09, TCP-R2T-10]
    pub fn ask(&mut self, cid: Cid, r: &mut Receive) {
        while r.r2ts < self.max_r2ts && r.asked < r.len {
            let len = (r.len - r.asked).min(self.settings.max_r2tl.max(4) as usize);
            let Some(ttag) = self.transfers.open(Window { cid, start: r.asked, len, got: 0, live: true }) else { return };
            self.out.push_back(Out::R2t { cid, ttag, offset: r.asked as u32, len: len as u32 });
            r.asked += len;
            r.r2ts += 1;
        }
    }
}

impl ControllerConnection {
    /// Judges the header of an H2CData; `carried` is the length of its DATA.
    pub(super) fn judge_h2c(&self, h: &H2cData, carried: usize) -> Result<(), Fault> {
        let (at, len) = (h.datao() as usize, h.datal() as usize);
        // The lowest faulty field is named: PLEN says how much DATA there is. [TCP-H2C-24, TCP-TERM-51]
        if carried != len {
            return Err(Fault::field(4));
        }
        // Without an R2T there is no tag that could be known. [TCP-H2C-15, TCP-H2C-26, TCP-H2C-04]
        let Some(w) = self.core.binding.transfers.windows.get(h.ttag()) else { return Err(Fault::field(10)) };
        // [TCP-H2C-25; FES by TCP-SILENT-18]
        if w.cid != h.cccid() {
            return Err(Fault::field(8));
        }
        // [TCP-H2C-27]
        if !at.is_multiple_of(4) {
            return Err(Fault::field(12));
        }
        // [TCP-H2C-09, TCP-H2C-10]
        if len > self.core.binding.settings.maxh2cdata as usize {
            return Err(Fault::plain(Fes::LIMIT_EXCEEDED));
        }
        let end = w.start + w.len;
        // [TCP-H2C-11]
        if at < w.start || at + len > end {
            return Err(Fault::plain(Fes::DATA_TRANSFER_OUT_OF_RANGE));
        }
        // Only the end of data whose length is no multiple of 4 is excused. [TCP-H2C-28]
        if !len.is_multiple_of(4) && at + len != end {
            return Err(Fault::field(16));
        }
        // Contiguous within the R2T, and the R2Ts of a command in their order. [TCP-H2C-01 to TCP-H2C-03, TCP-H2C-07, TCP-H2C-08,
        // TCP-R2T-07]
        let expected = match self.core.commands.get(w.cid).map(|c| &c.state) {
            Some(State::Receiving { fetch, .. }) if w.live => fetch.got,
            _ => w.start + w.got,
        };
        if at != expected {
            return Err(Fault::plain(Fes::PDU_SEQUENCE_ERROR));
        }
        // LAST_PDU goes with the last byte of the R2T. [TCP-H2C-12, TCP-H2C-13, TCP-H2C-16]
        if h.last() != (at + len == end) {
            return Err(Fault::plain(Fes::PDU_SEQUENCE_ERROR));
        }
        Ok(())
    }

    /// An H2CData whose header was judged.
    pub(super) fn h2c_data(&mut self, pdu: &[u8], data: Bytes, intact: bool) {
        let Ok(h) = H2cData::read(pdu) else { return };
        let Some(w) = self.core.binding.transfers.windows.get_mut(h.ttag()) else { return };
        w.got += data.len();
        let (cid, live, satisfied) = (w.cid, w.live, w.got == w.len);
        if satisfied {
            self.core.binding.transfers.windows.remove(h.ttag());
        }
        if !live {
            return;
        }
        let Some(c) = self.core.commands.get_mut(cid) else { return };
        let State::Receiving { fetch: r, .. } = &mut c.state else { return };
        r.got += data.len();
        r.r2ts -= u32::from(satisfied);
        // The command fails when all its data came. [TCP-DGST-27, TCP-DGST-28]
        r.intact &= intact;
        if r.intact && data.len() == r.len {
            // All at once: nothing to join it with, however small it is.
            r.gather = data.into();
        } else if r.intact {
            r.gather.push(data);
        }
        if r.got < r.len {
            return self.core.binding.ask(cid, r);
        }
        let data = if r.intact { Ok(core::mem::take(&mut r.gather)) } else { Err(Status::TRANSIENT_TRANSPORT_ERROR) };
        self.core.arrived(cid, data);
    }
}
