//! SQEs that a host sends. CID, PSDT and SGL1 are filled in at submission.

use nvmf_wire::admin::{Abort, Cns, Feature, GetFeatures, GetLogPage, Identify, LogPage, SetFeatures};
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::cqe::AsyncEventResponse;
use nvmf_wire::nvm::{Compare, Read, Write, WriteZeroes};
use nvmf_wire::property::{Property, PropertyGet, PropertySet};
use nvmf_wire::sqe::{FabricsSqe, FabricsType, IoOpcode};
use nvmf_wire::value::Text;
use nvmf_wire::{Cid, Cntlid, Nsid, Opcode, Qid, Sqe, ZeroBased16};

use super::connection::Payload;
use super::settings::HostSettings;

fn fabrics(fctype: FabricsType) -> [u8; 64] {
    *FabricsSqe::new().with(|s| s.opc(Opcode::FABRICS).fctype(fctype)).as_bytes()
}

fn common(opc: u8, nsid: Nsid) -> [u8; 64] {
    *Sqe::new().with(|s| s.opc(Opcode(opc)).nsid(nsid)).as_bytes()
}

/// Connect for queue `qid` of `entries`. KATO and the wish for single queues to be deleted go with the Admin Queue only.
/// [FAB-CONNECT-05, FAB-CONNECT-06, FAB-CONNECT-09, FAB-CONNECT-13, FAB-CONNECT-14]
pub fn connect(settings: &HostSettings, qid: Qid, entries: u16) -> Sqe {
    let admin = qid == Qid::ADMIN;
    let c = Connect::from_bytes(fabrics(FabricsType::CONNECT)).with(|s| {
        s.qid(qid)
            .sqsize(ZeroBased16::of(entries.into()))
            .sqfcd(settings.flow_control_off)
            .ioqd(admin && settings.queue_deletion)
            .kato(if admin { settings.kato_ms } else { 0 })
    });
    Sqe::from_bytes(*c.as_bytes())
}

/// Disconnect: no data, the rest reserved. [FAB-DISC-04]
pub fn disconnect() -> Sqe {
    Sqe::from_bytes(fabrics(FabricsType::DISCONNECT))
}

/// The 1024 bytes that go with Connect. [FAB-CONNECT-17]
pub fn connect_data(settings: &HostSettings, cntlid: Cntlid) -> ConnectData {
    ConnectData::new().with(|s| {
        s.hostid(settings.hostid).cntlid(cntlid).subnqn(Text::new(&settings.subnqn)).hostnqn(Text::new(&settings.hostnqn))
    })
}

/// Property Get in the property's own width. [FAB-PROP-01, FAB-PROP-07]
pub fn property_get(at: Property) -> Sqe {
    let wide = at.size() == Some(8);
    let c = PropertyGet::from_bytes(fabrics(FabricsType::PROPERTY_GET)).with(|s| s.attrib(wide.into()).ofst(at));
    Sqe::from_bytes(*c.as_bytes())
}

/// Property Set in the property's own width. [FAB-PROP-01, FAB-PROP-08]
pub fn property_set(at: Property, value: u64) -> Sqe {
    let wide = at.size() == Some(8);
    let c = PropertySet::from_bytes(fabrics(FabricsType::PROPERTY_SET)).with(|s| s.attrib(wide.into()).ofst(at).value(value));
    Sqe::from_bytes(*c.as_bytes())
}

/// Identify with 4096 bytes of data from the controller. [Base 2.0, 5.17]
pub fn identify(cns: Cns, nsid: Nsid) -> Sqe {
    let c = Identify::from_bytes(common(Opcode::IDENTIFY.0, nsid)).with(|s| s.cns(cns));
    Sqe::from_bytes(*c.as_bytes())
}

/// Get Log Page of `len` bytes (a multiple of 4, not 0) from byte `offset` (a multiple of 4) on. [ADM-LOG-03]
pub fn get_log_page(lid: LogPage, offset: u64, len: u32, retain: bool) -> Sqe {
    let c = GetLogPage::from_bytes(common(Opcode::GET_LOG_PAGE.0, Nsid::NONE))
        .with(|s| s.lid(lid).rae(retain).numd((len / 4).saturating_sub(1)).lpo(offset));
    Sqe::from_bytes(*c.as_bytes())
}

/// Get Log Page that clears an event: the page that it names, with RAE 0, and the bytes to ask for. `None` where it names none.
/// [AER-08, ADM-LOG-10, ADM-LOG-27]
pub fn clear_event(event: AsyncEventResponse) -> Option<(Sqe, Payload)> {
    let lid = event.log_page();
    let len = match lid {
        // No event has it: 0 stands for none.
        LogPage::SUPPORTED => return None,
        LogPage::SMART | LogPage::FIRMWARE_SLOT => 512,
        LogPage::CHANGED_NAMESPACES => 4096,
        LogPage::DISCOVERY => 1024,
        LogPage::ANA => 16,
        _ => 64,
    };
    let sqe = get_log_page(lid, 0, len, false);
    let sqe = if lid == LogPage::SMART { sqe.with(|s| s.nsid(Nsid::BROADCAST)) } else { sqe };
    Some((sqe, Payload::In(len)))
}

/// Get Features with a value in dword 11; the current value is asked for.
pub fn get_features(fid: Feature, value: u32) -> Sqe {
    let c = GetFeatures::from_bytes(common(Opcode::GET_FEATURES.0, Nsid::NONE)).with(|s| s.fid(fid).value(value));
    Sqe::from_bytes(*c.as_bytes())
}

/// Abort of a command: CDW10 and nothing else. [ADM-ABORT-08]
pub fn abort(sqid: Qid, cid: Cid) -> Sqe {
    let c = Abort::from_bytes(common(Opcode::ABORT.0, Nsid::NONE)).with(|s| s.sqid(sqid).cid_abort(cid));
    Sqe::from_bytes(*c.as_bytes())
}

/// Set Features with a value in dword 11.
pub fn set_features(fid: Feature, value: u32) -> Sqe {
    let c = SetFeatures::from_bytes(common(Opcode::SET_FEATURES.0, Nsid::NONE)).with(|s| s.fid(fid).value(value));
    Sqe::from_bytes(*c.as_bytes())
}

/// Keep Alive. [Base 2.0, 5.18]
pub fn keep_alive() -> Sqe {
    Sqe::from_bytes(common(Opcode::KEEP_ALIVE.0, Nsid::NONE))
}

/// Asynchronous Event Request. [ADM-AER-26]
pub fn async_event_request() -> Sqe {
    Sqe::from_bytes(common(Opcode::ASYNC_EVENT_REQUEST.0, Nsid::NONE))
}

/// Read of `blocks` logical blocks (1 to 65536) from `lba` on.
pub fn read(nsid: Nsid, lba: u64, blocks: u32) -> Sqe {
    let c = Read::from_bytes(common(IoOpcode::READ.0, nsid)).with(|s| s.slba(lba).nlb(ZeroBased16::of(blocks.into())));
    Sqe::from_bytes(*c.as_bytes())
}

/// Write of `blocks` logical blocks (1 to 65536) from `lba` on.
pub fn write(nsid: Nsid, lba: u64, blocks: u32) -> Sqe {
    let c = Write::from_bytes(common(IoOpcode::WRITE.0, nsid)).with(|s| s.slba(lba).nlb(ZeroBased16::of(blocks.into())));
    Sqe::from_bytes(*c.as_bytes())
}

/// Compare of `blocks` logical blocks (1 to 65536) from `lba` on with data from the host.
pub fn compare(nsid: Nsid, lba: u64, blocks: u32) -> Sqe {
    let c = Compare::from_bytes(common(IoOpcode::COMPARE.0, nsid)).with(|s| s.slba(lba).nlb(ZeroBased16::of(blocks.into())));
    Sqe::from_bytes(*c.as_bytes())
}

/// Write Zeroes of `blocks` logical blocks (1 to 65536) from `lba` on.
pub fn write_zeroes(nsid: Nsid, lba: u64, blocks: u32) -> Sqe {
    let c = WriteZeroes::from_bytes(common(IoOpcode::WRITE_ZEROES.0, nsid));
    let c = c.with(|s| s.slba(lba).nlb(ZeroBased16::of(blocks.into())));
    Sqe::from_bytes(*c.as_bytes())
}

/// Flush.
pub fn flush(nsid: Nsid) -> Sqe {
    Sqe::from_bytes(common(IoOpcode::FLUSH.0, nsid))
}
