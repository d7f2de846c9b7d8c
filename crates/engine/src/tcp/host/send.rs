//! PDUs that the host makes: ICReq, H2CTermReq, CapsuleCmd, H2CData.

use bytes::Bytes;
use nvmf_seam::{Head, Instant, Transmit};
use nvmf_wire::tcp::{CapsuleCmd, Digests, Fes, H2cData, IcReq, PduHead, PduType, TermReq, crc32c};
use nvmf_wire::{Cid, ZeroBased32};

use super::{HostConnection, Item, State};
use crate::host::settings::HostTcpSettings;

/// The first PDU of a connection: PFV 0, what the settings ask for, all else zero. [TCP-ICREQ-02 to TCP-ICREQ-13]
pub(super) fn icreq(settings: &HostTcpSettings) -> Transmit {
    let mut pdu = [0; IcReq::LEN];
    common(&mut pdu, PduType::IC_REQ, IcReq::LEN);
    let pdu = IcReq::from_bytes(pdu).with(|s| {
        s.hpda(settings.hpda.min(31))
            .hdgst(settings.digests.header)
            .ddgst(settings.digests.data)
            .maxr2t(ZeroBased32::of(settings.r2ts.into()))
    });
    Transmit { head: Head::new(pdu.as_bytes()), payload: Bytes::new(), digest: None }
}

/// H2CTermReq with the header in which the fault was found, at most 128 bytes of it. [TCP-TERM-18, TCP-TERM-21, TCP-TERM-25 to -40]
pub(super) fn term_req(fes: Fes, fei: u32, header: &[u8]) -> Transmit {
    let header = header.get(..128).unwrap_or(header);
    let mut pdu = [0; TermReq::LEN];
    common(&mut pdu, PduType::H2C_TERM_REQ, TermReq::LEN + header.len());
    let pdu = TermReq::from_bytes(pdu).with(|s| s.fes(fes).fei(fei));
    let mut head = Head::new(pdu.as_bytes());
    head.extend(header);
    Transmit { head, payload: Bytes::new(), digest: None }
}

/// Common header of a PDU whose HLEN is its whole array: type, HLEN and PLEN, no flags, PDO 0.
fn common<const N: usize>(pdu: &mut [u8; N], ptype: PduType, plen: usize) {
    if let Some(b) = pdu.first_chunk_mut::<8>() {
        *b = *PduHead::new().with(|s| s.ptype(ptype).hlen(N as u8).plen(plen as u32)).as_bytes();
    }
}

/// A PDU with HLEN, PDO, PLEN, flags of digests, digests and padding as the connection asks for.
/// [TCP-PAD-02 to TCP-PAD-05, TCP-DGST-04 to TCP-DGST-16]
fn encode(header: &mut [u8], data: Bytes, digests: Digests, align: usize) -> Transmit {
    let hlen = header.len();
    let at = hlen + if digests.header { 4 } else { 0 };
    let data_at = if data.is_empty() { at } else { at.next_multiple_of(align) };
    let ddgst = digests.data && !data.is_empty();
    let plen = data_at + data.len() + if ddgst { 4 } else { 0 };
    if let Some(b) = header.first_chunk_mut::<8>() {
        let pdo = if data.is_empty() { 0 } else { data_at as u8 };
        *b = *PduHead::from_bytes(*b)
            .with(|s| s.hlen(hlen as u8).pdo(pdo).plen(plen as u32).hdgstf(digests.header).ddgstf(ddgst))
            .as_bytes();
    }
    let mut head = Head::new(header);
    if digests.header {
        head.extend(&crc32c(header));
    }
    head.pad(data_at - at);
    let digest = ddgst.then(|| crc32c(&data));
    Transmit { head, payload: data, digest }
}

/// What the CPU reads of data on its way out: once for the copy into the byte stream, once for its digest.
fn touched(data: &Bytes, digests: Digests) -> u64 {
    data.len() as u64 * if digests.data { 2 } else { 1 }
}

impl HostConnection {
    /// The next PDU to send. R2Ts are answered in the order in which they came. [TCP-R2T-07]
    pub fn poll_transmit(&mut self, _now: Instant) -> Option<Transmit> {
        if matches!(self.state, State::Faulty { .. }) {
            // The H2CTermReq is all that is to come.
            return None;
        }
        loop {
            match self.out.pop_front()? {
                Item::Made(t) => return Some(t),
                Item::Capsule(cid) => {
                    if let Some(t) = self.capsule(cid) {
                        return Some(t);
                    }
                }
                Item::H2cData { cid, ttag, at, end } => {
                    if let Some(t) = self.h2c_data(cid, ttag, at, end) {
                        return Some(t);
                    }
                }
            }
        }
    }

    fn capsule(&mut self, cid: Cid) -> Option<Transmit> {
        debug_assert_eq!(self.state, State::Ready);
        let agreed = self.agreed;
        let p = self.ledger.pending.get_mut(&cid)?;
        p.sent = true;
        let data = if p.own.in_capsule { p.own.out.clone() } else { Bytes::new() };
        self.ledger.touched += touched(&data, agreed.digests);
        let mut pdu = *CapsuleCmd::new().with(|s| s.sqe(*p.sqe.as_bytes())).as_bytes();
        common(&mut pdu, PduType::CAPSULE_CMD, 0);
        Some(encode(&mut pdu, data, agreed.digests, agreed.align))
    }

    /// One H2CData of an R2T; what remains of it goes back to the front of the queue. [TCP-H2C-05 to TCP-H2C-14]
    fn h2c_data(&mut self, cid: Cid, ttag: u16, at: u32, end: u32) -> Option<Transmit> {
        let agreed = self.agreed;
        let p = &mut self.ledger.pending.get_mut(&cid)?.own;
        let len = (end - at).min(agreed.maxh2cdata);
        let last = at + len == end;
        let data = p.out.slice(at as usize..(at + len) as usize);
        let mut pdu = *H2cData::new().with(|s| s.cccid(cid).ttag(ttag).datao(at).datal(len)).as_bytes();
        common(&mut pdu, PduType::H2C_DATA, 0);
        pdu = *H2cData::from_bytes(pdu).with(|s| s.last(last)).as_bytes();
        if last {
            p.r2ts -= 1;
        } else {
            self.out.push_front(Item::H2cData { cid, ttag, at: at + len, end });
        }
        self.ledger.touched += touched(&data, agreed.digests);
        Some(encode(&mut pdu, data, agreed.digests, agreed.align))
    }
}
