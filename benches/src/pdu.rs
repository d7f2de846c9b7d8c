//! The PDUs of a host, ready-made: what a load generator and the rig in memory send.

use bytes::Bytes;
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::property::{Cc, Property, PropertySet};
use nvmf_wire::tcp::{CapsuleCmd, Digests, H2cData, IcReq, Pdu, PduType, crc32c};
use nvmf_wire::value::Text;
use nvmf_wire::{Cid, Cntlid, CommandKind, Nsid, Qid, SglDescriptor, Sqe, ZeroBased16, nvm};

/// ICReq that asks for `digests`.
pub fn ic_req(digests: Digests) -> Vec<u8> {
    let req = IcReq::new().with(|s| s.hdgst(digests.header).ddgst(digests.data));
    let mut header = *req.as_bytes();
    header[0] = PduType::IC_REQ.0;
    Pdu::build(&header, Bytes::new(), Digests::default(), 4).to_bytes()
}

/// The capsule that creates a queue of `entries`, at least 2; an Admin Queue with a Keep Alive Timeout of two minutes.
pub fn connect(qid: Qid, cntlid: Cntlid, entries: u16, subnqn: &str, digests: Digests) -> Vec<u8> {
    let mut c = Connect::from_bytes(*named("Connect").as_bytes());
    c.set().qid(qid).sqsize(ZeroBased16(entries - 1));
    if qid == Qid::ADMIN {
        c.set().kato(120_000);
    }
    let mut d = ConnectData::new();
    d.set().hostid([7; 16]).cntlid(cntlid).subnqn(Text::new(subnqn)).hostnqn(Text::new("nqn.2014-08.org.example:host"));
    let sqe = Sqe::from_bytes(*c.as_bytes()).with_sgl1(SglDescriptor::in_capsule(0, 1024));
    capsule(sqe, Bytes::copy_from_slice(d.as_bytes()), digests)
}

/// The capsule that sets CC.EN.
pub fn enable(digests: Digests) -> Vec<u8> {
    let cc = Cc::new().with(|s| s.en(true).iosqes(6).iocqes(4));
    let mut set = PropertySet::from_bytes(*named("PropertySet").as_bytes());
    set.set().ofst(Property::CC).value(u64::from(u32::from_le_bytes(*cc.as_bytes())));
    capsule(Sqe::from_bytes(*set.as_bytes()), Bytes::new(), digests)
}

/// The bytes of a command capsule.
pub fn capsule(sqe: Sqe, data: Bytes, digests: Digests) -> Vec<u8> {
    let mut header = *CapsuleCmd::new().with(|s| s.sqe(*sqe.as_bytes())).as_bytes();
    header[0] = PduType::CAPSULE_CMD.0;
    Pdu::build(&header, data, digests, 4).seal().to_bytes()
}

/// The one H2CData that answers an R2T for all of `data`; CCCID and TTAG are 0 still.
pub fn h2c_data(data: Bytes, digests: Digests) -> Vec<u8> {
    let mut header = *H2cData::new().with(|s| s.datal(data.len() as u32).last(true)).as_bytes();
    header[0] = PduType::H2C_DATA.0;
    Pdu::build(&header, data, digests, 4).seal().to_bytes()
}

/// Makes an H2CData the answer to an R2T.
pub fn address(h2c_data: &mut [u8], cccid: Cid, ttag: u16, digests: Digests) {
    h2c_data[8..10].copy_from_slice(&cccid.0.to_le_bytes());
    h2c_data[10..12].copy_from_slice(&ttag.to_le_bytes());
    sign(h2c_data, H2cData::LEN, digests);
}

/// Puts the header digest in, where there is one, after a change of the header.
pub fn sign(pdu: &mut [u8], hlen: usize, digests: Digests) {
    if digests.header {
        let (header, rest) = pdu.split_at_mut(hlen);
        rest[..4].copy_from_slice(&crc32c(header));
    }
}

fn named(name: &str) -> Sqe {
    CommandKind::named(name).expect("a command").sqe()
}

/// A Read or, with `sgl` in the capsule, a Write of `blocks` blocks.
pub fn io(name: &str, slba: u64, blocks: u16, sgl: SglDescriptor) -> Sqe {
    let mut rw = nvm::Read::from_bytes(*named(name).as_bytes());
    rw.set().slba(slba).nlb(ZeroBased16(blocks - 1));
    Sqe::from_bytes(*rw.as_bytes()).with(|s| s.nsid(Nsid(1)).cid(Cid(0x1234)).psdt(1)).with_sgl1(sgl)
}
