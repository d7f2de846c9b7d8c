//! CM messages as bytes: MADs in unreliable datagrams from and to queue pair 1. [IBA vol. 1, 12.6]

use core::net::IpAddr;

use bytes::{BufMut, Bytes, BytesMut};
use nvmf_wire::cm::{CmMessage, CmRej, CmStage, GSI_QKEY, GSI_QPN, MAD_LEN, Mad, MadClass, MadMethod, RejReason};
use nvmf_wire::layout::Structure;
use nvmf_wire::roce::{Bth, Deth, RoceOpcode};

use crate::Datagram;
use crate::common::Core;
use crate::packet::Parts;

/// MAD header of a CM message.
pub(crate) fn mad(message: CmMessage, tid: u64) -> Mad {
    Mad::new().with(|s| {
        s.base(1).class(MadClass::COMMUNICATION_MANAGEMENT).version(2).method(MadMethod::SEND).tid(tid).attribute(message)
    })
}

/// A whole message as a datagram. Not ECN capable, as it has no congestion control.
pub(crate) fn datagram<T: Structure>(core: &mut Core, to: IpAddr, mad: &Mad, body: &T) -> Option<Datagram> {
    let mut bytes = BytesMut::with_capacity(MAD_LEN);
    bytes.put_slice(mad.as_bytes());
    bytes.put_slice(body.bytes());
    bytes.resize(MAD_LEN, 0);
    let flow = core.control_flow(to, core.settings.dscp, GSI_QPN << 8 ^ GSI_QPN)?;
    let psn = core.random24();
    let bth = Bth::new().with(|s| s.opcode(RoceOpcode::UD_SEND_ONLY).pkey(core.settings.pkey).dqpn(GSI_QPN).psn(psn));
    let deth = Deth::new().with(|s| s.qkey(GSI_QKEY).sqpn(GSI_QPN));
    Some(flow.packet(Parts { bth, extended: [deth.as_bytes(), &[]], inline: &[], payload: bytes.freeze() }))
}

/// REJ of a message that named `remote_id` as its own.
pub(crate) fn reject(
    core: &mut Core,
    to: IpAddr,
    tid: u64,
    (local_id, remote_id): (u32, u32),
    (stage, reason): (CmStage, RejReason),
    private: &[u8],
) -> Option<Datagram> {
    let rej =
        CmRej::new().with(|s| s.local_id(local_id).remote_id(remote_id).message(stage).reason(reason).private(padded(private)));
    datagram(core, to, &mad(CmMessage::REJ, tid), &rej)
}

/// The first bytes of `bytes`, zeros behind them.
pub(crate) fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.iter_mut().zip(bytes).for_each(|(o, b)| *o = *b);
    out
}

/// GID of an address: an IPv6 address itself, an IPv4 address mapped into IPv6. [IBA annex A17.4.1]
pub(crate) fn gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// An address of the IP CM header: IPv4 in the last four bytes. [IBA annex A11]
pub(crate) fn ip_cm_address(version: u8, bytes: [u8; 16]) -> Option<IpAddr> {
    match version {
        4 => Some(IpAddr::from([bytes[12], bytes[13], bytes[14], bytes[15]])),
        6 => Some(IpAddr::from(bytes)),
        _ => None,
    }
}

/// Address in the IP CM header's form.
pub(crate) fn to_ip_cm(address: IpAddr) -> (u8, [u8; 16]) {
    match address {
        IpAddr::V4(v4) => {
            let mut out = [0; 16];
            out[12..].copy_from_slice(&v4.octets());
            (4, out)
        }
        IpAddr::V6(v6) => (6, v6.octets()),
    }
}

/// A field of bytes, shared.
pub(crate) fn shared(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}
