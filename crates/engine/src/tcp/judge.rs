//! Is this header right, at this moment, on a controller's connection? Nothing here changes state.
//!
//! The order is type, FLAGS, HLEN, PDO, PLEN, so that of several faulty fields the lowest is reported. [TCP-TERM-51]

use nvmf_wire::tcp::{Digests, Fes, PduHead, PduType};

/// A fatal transport error: what the C2HTermReq says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub fes: Fes,
    pub fei: u32,
}

impl Fault {
    /// Invalid PDU Header Field; FEI is the offset of the field's first byte. [TCP-TERM-50]
    pub const fn field(offset: u32) -> Self {
        Self { fes: Fes::INVALID_PDU_HEADER_FIELD, fei: offset }
    }

    /// Unsupported Parameter; FEI is the offset of the field. [TCP-TERM-53]
    pub const fn unsupported(offset: u32) -> Self {
        Self { fes: Fes::UNSUPPORTED_PARAMETER, fei: offset }
    }

    /// A status whose FEI is reserved, hence 0. [TCP-TERM-54]
    pub const fn plain(fes: Fes) -> Self {
        Self { fes, fei: 0 }
    }
}

/// Offset of FLAGS in the common header.
const FLAGS: u32 = 1;
/// Offset of HLEN.
const HLEN: u32 = 2;
/// Offset of PDO.
const PDO: u32 = 3;
/// Offset of PLEN.
const PLEN: u32 = 4;

/// What the receiver of a PDU knows when its common header comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    /// ICReq was handled.
    pub initialized: bool,
    /// Digests in use.
    pub digests: Digests,
    /// Alignment of data from the host, bytes.
    pub align: usize,
    /// Longest PLEN taken.
    pub longest: usize,
}

/// Where the parts of a PDU lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// CH and PSH.
    pub hlen: usize,
    /// HDGST is there.
    pub hdgst: bool,
    /// DATA.
    pub data: (usize, usize),
    /// DDGST is there, behind DATA.
    pub ddgst: bool,
}

/// Judges a common header. H2CTermReq is not for this: a terminate request is never answered by one.
pub(super) fn head(head: &PduHead, cx: &Context) -> Result<Parts, Fault> {
    let ptype = head.ptype();
    // Reserved types and those of the other direction. [TCP-ERR-05, TCP-CH-02; FES by TCP-SILENT-05]
    let hlen = match ptype.hlen() {
        Some(h) if ptype.from_host() => h,
        _ => return Err(Fault::field(0)),
    };
    // ICReq comes first and only once. [TCP-ICREQ-01, TCP-CONN-02; FES by TCP-SILENT-01 and TCP-SILENT-02]
    if (ptype == PduType::IC_REQ) == cx.initialized {
        return Err(Fault::plain(Fes::PDU_SEQUENCE_ERROR));
    }
    if ptype == PduType::IC_REQ {
        return ic_req(head, hlen);
    }
    // HDGSTF is as negotiated. [TCP-DGST-05, TCP-DGST-08]
    if head.hdgstf() != cx.digests.header {
        return Err(Fault::field(FLAGS));
    }
    let at = hlen + if cx.digests.header { 4 } else { 0 };
    let plen = head.plen() as usize;
    let data = ptype == PduType::H2C_DATA || plen > at;
    // DDGSTF is as negotiated where there is data; without data the text leaves it open. [TCP-DGST-13, TCP-DGST-15, TCP-SILENT-09]
    if head.ddgstf() != cx.digests.data && (data || head.ddgstf()) {
        return Err(Fault::field(FLAGS));
    }
    // [TCP-CAPSULE-15, TCP-H2C-20]
    if usize::from(head.hlen()) != hlen {
        return Err(Fault::field(HLEN));
    }
    if !data {
        // [TCP-CAPSULE-19]
        return if plen == at {
            Ok(Parts { hlen, hdgst: at > hlen, data: (at, at), ddgst: false })
        } else {
            Err(Fault::field(PLEN))
        };
    }
    // PDO is the aligned offset, with no more padding than that needs. [TCP-CAPSULE-18, TCP-CAPSULE-22, TCP-H2C-23, TCP-H2C-31]
    let data_at = at.next_multiple_of(cx.align);
    if usize::from(head.pdo()) != data_at {
        return Err(Fault::field(PDO));
    }
    let tail = if cx.digests.data { 4 } else { 0 };
    // [TCP-CAPSULE-19, TCP-H2C-24; TCP-CH-06]
    if plen <= data_at + tail || plen > cx.longest {
        return Err(Fault::field(PLEN));
    }
    Ok(Parts { hlen, hdgst: at > hlen, data: (data_at, plen - tail), ddgst: tail > 0 })
}

/// The common header of ICReq: its FLAGS and PDO are reserved and not looked at. [TCP-ICREQ-03, TCP-ICREQ-06]
fn ic_req(head: &PduHead, hlen: usize) -> Result<Parts, Fault> {
    // [TCP-ICREQ-04]
    if usize::from(head.hlen()) != hlen {
        return Err(Fault::field(HLEN));
    }
    // [TCP-ICREQ-05]
    if head.plen() as usize != hlen {
        return Err(Fault::field(PLEN));
    }
    Ok(Parts { hlen, hdgst: false, data: (hlen, hlen), ddgst: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cx(digests: Digests, align: usize) -> Context {
        Context { initialized: true, digests, align, longest: 100_000 }
    }

    fn h2c(f: impl FnOnce(&mut PduHead)) -> PduHead {
        let mut h = PduHead::new().with(|s| s.ptype(PduType::H2C_DATA).hlen(24).pdo(24).plen(24 + 512));
        f(&mut h);
        h
    }

    #[test]
    fn of_several_faults_the_lowest_offset_is_reported() {
        let both = h2c(|h| {
            h.set().hlen(25).pdo(0).plen(3);
        });
        assert_eq!(head(&both, &cx(Digests::default(), 4)), Err(Fault::field(2)));
        let both = h2c(|h| {
            h.set().hdgstf(true).hlen(25);
        });
        assert_eq!(head(&both, &cx(Digests::default(), 4)), Err(Fault::field(1)));
    }

    #[test]
    fn data_starts_at_the_alignment_and_nowhere_else() {
        let digests = Digests { header: true, data: false };
        for (align, at) in [(4, 28), (8, 32), (16, 32), (64, 64), (128, 128)] {
            for pdo in [24, 28, 32, 64, 128] {
                let h = h2c(|h| {
                    h.set().hdgstf(true).pdo(pdo).plen(1000);
                });
                let want = if usize::from(pdo) == at { Ok((at, 1000)) } else { Err(Fault::field(3)) };
                assert_eq!(head(&h, &cx(digests, align)).map(|p| p.data), want, "align {align} PDO {pdo}");
            }
        }
    }

    #[test]
    fn h2cdata_without_data_has_a_wrong_plen() {
        let h = h2c(|h| {
            h.set().plen(24);
        });
        assert_eq!(head(&h, &cx(Digests::default(), 4)), Err(Fault::field(4)));
    }
}
