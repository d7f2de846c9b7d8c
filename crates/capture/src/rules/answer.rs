//! Commands that have to be refused: success is a breach, and so is a status that names another cause.
//!
//! Judged is only what the bytes of the command, and what was said before on these connections, show to be wrong. Which of several
//! causes a controller names is its own choice [FAB-STATUS-01, CQE-13], and it may always fail for reasons that nobody sees; so a
//! status counts as wrong only where it claims a cause, and the command has no other one.

use nvmf_spec::{Requirement, req};
use nvmf_wire::admin::{Cns, Feature, GetFeatures, GetLogPage, Identify, LogPage, SetFeatures};
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::identify::{ControllerType, IdentifyControllerNvm};
use nvmf_wire::nqn::DISCOVERY_NQN;
use nvmf_wire::nvm::{Copy, DatasetManagement, Read};
use nvmf_wire::property::{PropertyGet, PropertySet};
use nvmf_wire::sqe::{FabricsType, IoOpcode};
use nvmf_wire::{Cntlid, Cqe, Opcode, Qid, Sqe, Status};

use super::known::Enable;
use super::state::{Mark, State};
use super::{Out, Said, host, rdma};
use crate::session::Command;

/// Why a command has to be refused.
struct Due {
    which: &'static [&'static Requirement],
    why: String,
    /// Statuses that fit; empty where any refusal does.
    with: &'static [Status],
}

/// Collects causes.
#[derive(Default)]
pub(super) struct Causes(Vec<Due>);

impl Causes {
    pub fn add(&mut self, is: bool, which: &'static [&'static Requirement], with: &'static [Status], why: impl FnOnce() -> String) {
        if is {
            self.0.push(Due { which, why: why(), with });
        }
    }
}

const FIELD: &[Status] = &[Status::INVALID_FIELD_IN_COMMAND];
const OPCODE: &[Status] = &[Status::INVALID_COMMAND_OPCODE];
const SEQUENCE: &[Status] = &[Status::COMMAND_SEQUENCE_ERROR];
const NAMESPACE: &[Status] = &[Status::INVALID_NAMESPACE_OR_FORMAT];
const LENGTH: &[Status] = &[Status::DATA_SGL_LENGTH_INVALID];
const PARAMETERS: &[Status] = &[Status::CONNECT_INVALID_PARAMETERS];

/// A status that claims a cause in the command itself.
fn claims(status: Status) -> bool {
    let code = status.code();
    let generic = [
        Status::INVALID_COMMAND_OPCODE,
        Status::INVALID_FIELD_IN_COMMAND,
        Status::INVALID_NAMESPACE_OR_FORMAT,
        Status::COMMAND_SEQUENCE_ERROR,
        Status::INVALID_SGL_SEGMENT_DESCRIPTOR,
        Status::INVALID_NUMBER_OF_SGL_DESCRIPTORS,
        Status::DATA_SGL_LENGTH_INVALID,
        Status::SGL_DESCRIPTOR_TYPE_INVALID,
        Status::SGL_OFFSET_INVALID,
        Status::KEEP_ALIVE_TIMEOUT_INVALID,
        Status::LBA_OUT_OF_RANGE,
        Status::CAPACITY_EXCEEDED,
    ];
    generic.contains(&code) || code == Status::CONNECT_INVALID_PARAMETERS || code == Status::INVALID_QUEUE_IDENTIFIER
}

pub(super) fn check(state: &State, command: &Command, cqe: &Cqe, who: Said, out: &mut Out) {
    let sqe = &command.sqe;
    let mark = state.marks.get(&sqe.cid().0).copied().unwrap_or_default();
    let mut causes = Causes::default();
    match sqe.fctype() {
        Some(kind) => fabrics(state, kind, sqe, command, mark, &mut causes),
        None if state.session.is_admin() => {
            disabled(state, mark, &mut causes);
            unauthenticated(state, mark, &mut causes);
            common(state, sqe, &mut causes);
            admin(state, sqe, mark, &mut causes);
        }
        None => {
            unauthenticated(state, mark, &mut causes);
            fused(state, sqe, &mut causes);
            common(state, sqe, &mut causes);
            io(state, sqe, &mut causes);
        }
    }
    causes.add(command.bad_digest, &[req::TCP_DGST_28, req::TCP_ERR_07], &[Status::TRANSIENT_TRANSPORT_ERROR], || {
        "with a wrong data digest".into()
    });
    // What a controller need not have, it may not know.
    let optional = sqe.fctype().is_none() && !mandatory(state, sqe);
    if optional && cqe.status().code() == Status::INVALID_COMMAND_OPCODE {
        return;
    }
    judge(&causes.0, cqe, sqe.fctype().is_some(), who, out);
}

fn mandatory(state: &State, sqe: &Sqe) -> bool {
    match state.session.is_admin() {
        true => matches!(sqe.opc(), Opcode::IDENTIFY | Opcode::GET_LOG_PAGE | Opcode::GET_FEATURES | Opcode::SET_FEATURES),
        false => matches!(IoOpcode(sqe.opc().0), IoOpcode::READ | IoOpcode::WRITE | IoOpcode::FLUSH),
    }
}

fn judge(causes: &[Due], cqe: &Cqe, fabrics: bool, who: Said, out: &mut Out) {
    let status = cqe.status();
    let Some(first) = causes.first() else { return };
    let seen = format_args!("{who} {}: {}", first.why, status.show(fabrics));
    let fits = || first.with.iter().map(|s| s.show(fabrics).to_string()).collect::<Vec<_>>().join(" or ");
    if status.is_success() {
        let asked = if first.with.is_empty() { "an error".into() } else { fits() };
        first.which.iter().for_each(|r| out.add(r, seen, &asked));
    } else if causes.len() == 1 && !first.with.is_empty() && wrong(first, status) {
        first.which.iter().for_each(|r| out.add(r, seen, fits()));
    }
}

fn wrong(due: &Due, status: Status) -> bool {
    let code = status.code();
    let data = due.with.contains(&Status::TRANSIENT_TRANSPORT_ERROR) && code == Status::DATA_TRANSFER_ERROR;
    !due.with.contains(&code) && (claims(code) || data)
}

/// A controller that is disabled, or was told to shut down, serves Fabrics commands alone.
fn disabled(state: &State, mark: Mark, causes: &mut Causes) {
    let connected = mark.connected && state.connected;
    causes.add(!connected, &[req::FAB_QUEUE_12], &[], || "before Connect".into());
    let off = connected && mark.off && state.known.enable == Enable::Off;
    causes.add(off, &[req::FAB_QUEUE_05, req::SQE_38], SEQUENCE, || "while CC.EN is 0".into());
    let shut = connected && mark.shut && state.known.shut && !off;
    causes.add(shut, &[req::RESET_21, req::FAB_INIT_20], &[], || "after a shutdown".into());
}

/// Halves of a fused operation stand and fall together. [NVM Command Set 1.0, 2.1.1]
fn fused(state: &State, sqe: &Sqe, causes: &mut Causes) {
    let cid = sqe.cid().0;
    let pair = state.pairs.iter().find(|p| p.first == cid || p.second == cid);
    if let Some(p) = pair {
        let failed = p.second == cid && p.ended[0] == Some(false);
        let which: &[_] = &[req::NVM_FUSED_05, req::NVM_FUSED_06, req::FAB_TRANS_17];
        causes.add(failed, which, &[], || "whose first half failed".into());
        return;
    }
    let lone = matches!(sqe.fuse(), 1 | 2) && state.half != Some(cid) && state.known.identify.as_ref().is_some_and(|i| i.fuses());
    causes.add(lone, &[req::NVM_FUSED_04], &[Status::ABORTED_MISSING_FUSED], || "without the other half".into());
}

/// Reserved values of fields that every command has.
fn common(state: &State, sqe: &Sqe, causes: &mut Causes) {
    causes.add(sqe.fuse() == 3, &[req::SQE_08], FIELD, || "with FUSE 11b".into());
    causes.add(sqe.psdt() == 3, &[req::SQE_06], FIELD, || "with PSDT 11b".into());
    let sgl = sqe.sgl1();
    if state.rdma.is_some() {
        return rdma::refused(state, sqe, causes);
    }
    let offset = sgl.is_in_capsule() && sgl.len() > 0 && sgl.addr() != 0;
    causes.add(offset, &[req::SGL_18, req::SQE_26], &[Status::SGL_OFFSET_INVALID], || {
        format!("with offset {:#x} in its capsule", sgl.addr())
    });
    let keyed = matches!(sgl.id() >> 4, 1 | 4);
    causes.add(
        keyed && sgl.len() > 0,
        &[req::SGL_03, req::SQE_33, req::TCP_SGL_07],
        &[Status::SGL_DESCRIPTOR_TYPE_INVALID],
        || format!("with SGL descriptor {:02x}h", sgl.id()),
    );
}

fn fabrics(state: &State, kind: FabricsType, sqe: &Sqe, command: &Command, mark: Mark, causes: &mut Causes) {
    if kind == FabricsType::CONNECT {
        return connect(state, sqe, command, mark, causes);
    }
    causes.add(!mark.connected, &[req::FAB_QUEUE_12], &[], || "before Connect".into());
    if host::is_authentication(sqe) {
        let secp = sqe.as_bytes().get(43).copied().unwrap_or(0);
        let reserved = matches!(secp, 0x0a..=0x1f | 0x21..=0x3f | 0x43..=0xe8);
        causes.add(reserved, &[req::FAB_AUTH_02], &[], || format!("with SECP {secp:02x}h"));
    } else {
        unauthenticated(state, mark, causes);
    }
    let reserved = !matches!(kind.0, 0 | 1 | 4 | 5 | 6 | 8 | 0xc0..);
    causes.add(reserved, &[req::FAB_CMD_07, req::SQE_10, req::FAB_CMD_13], FIELD, || format!("of reserved type {:02x}h", kind.0));
    let property = matches!(kind, FabricsType::PROPERTY_GET | FabricsType::PROPERTY_SET);
    let io = mark.connected && !state.session.is_admin();
    causes.add(property && io, &[req::FAB_CMD_04], FIELD, || "on an I/O queue".into());
    if kind == FabricsType::DISCONNECT {
        let with = &[Status::INVALID_QUEUE_TYPE, Status::INVALID_COMMAND_OPCODE, Status::INVALID_FIELD_IN_COMMAND];
        causes.add(mark.connected && !io, &[req::FAB_DISC_01, req::ADM_PROHIB_07], with, || "on the Admin Queue".into());
        let recfmt = sqe.cdw10() as u16;
        let with = &[Status::INCOMPATIBLE_FORMAT, Status::INVALID_COMMAND_OPCODE];
        causes.add(io && recfmt != 0, &[req::FAB_DISC_03], with, || format!("with RECFMT {recfmt}"));
    }
    if property && !io && mark.connected {
        properties(kind, sqe, causes);
    }
}

/// Authentication was asked for by Connect, and nobody has begun it.
fn unauthenticated(state: &State, mark: Mark, causes: &mut Causes) {
    let early = mark.connected && state.required && !state.authenticating;
    let with = &[Status::AUTHENTICATION_REQUIRED];
    causes.add(early, &[req::FAB_QUEUE_02, req::FAB_AUTH_06], with, || "before authentication".into());
}

fn properties(kind: FabricsType, sqe: &Sqe, causes: &mut Causes) {
    let get = PropertyGet::from_bytes(*sqe.as_bytes());
    let (ofst, attrib) = (get.ofst(), get.attrib());
    causes.add(attrib > 1, &[req::FAB_CMD_13, req::SQE_12], FIELD, || format!("with ATTRIB {attrib}"));
    if attrib > 1 {
        return;
    }
    let size = if attrib == 1 { 8 } else { 4 };
    // Halves of a property of 8 bytes are served by some: not judged. [FAB-PROP-04]
    let wide = ofst.size().is_some_and(|s| s < size);
    let within = ofst.0 % 4 != 0 && ofst.0 < 0x1000;
    if kind == FabricsType::PROPERTY_GET {
        let seen = || format!("of {size} bytes at {:#x}", ofst.0);
        causes.add(wide || within, &[req::FAB_PROP_02, req::RESET_29], FIELD, seen);
    } else {
        let set = PropertySet::from_bytes(*sqe.as_bytes());
        let seen = || format!("of {size} bytes at {:#x}", set.ofst().0);
        causes.add(wide || within, &[req::FAB_PROP_03, req::RESET_29], FIELD, seen);
    }
}

fn connect(state: &State, sqe: &Sqe, command: &Command, mark: Mark, causes: &mut Causes) {
    let c = Connect::from_bytes(*sqe.as_bytes());
    let (admin, qid) = (c.qid() == Qid::ADMIN, c.qid());
    let known = &state.known;
    causes.add(mark.connected, &[req::FAB_CONNECT_03], SEQUENCE, || "on a queue that is connected".into());
    if mark.connected {
        return;
    }
    causes.add(c.recfmt() != 0, &[req::FAB_CONNECT_04], &[Status::INCOMPATIBLE_FORMAT], || format!("with RECFMT {}", c.recfmt()));
    causes.add(c.sqsize().0 == 0, &[req::FAB_CONNECT_07], PARAMETERS, || "with SQSIZE 0".into());
    let large = admin && c.sqsize().count() > 4096;
    causes.add(large, &[req::FAB_CONNECT_08, req::FAB_QUEUE_14], PARAMETERS, || format!("of {} entries", c.sqsize().count()));
    let Some(who) = &state.asking else { return };
    rdma::kept_alive(state, sqe, causes);
    let service = who.subnqn == DISCOVERY_NQN;
    causes.add(service && !admin, &[req::DISC_CTRL_02, req::ADM_PROHIB_02], PARAMETERS, || {
        format!("of queue {} at a discovery service", qid.0)
    });
    let fixed = service && admin && who.asked != Cntlid::DYNAMIC;
    causes.add(fixed, &[req::FAB_CNTLID_09, req::FAB_CNTLID_03], PARAMETERS, || {
        format!("to controller {:#06x} of a discovery service", who.asked.0)
    });
    let Some(w) = known.who.as_ref().filter(|_| !admin && known.open) else { return };
    let other = w.hostid != who.hostid || w.hostnqn != who.hostnqn;
    causes.add(other, &[req::FAB_CONNECT_23], PARAMETERS, || "by another host than that of the association".into());
    let taken = known.queues.get(&qid.0) == Some(&true) && !other;
    causes.add(taken, &[req::FAB_CONNECT_03], SEQUENCE, || format!("of queue {}, which stands", qid.0));
    let off = mark.off && known.enable == Enable::Off;
    causes.add(off, &[req::FAB_CONNECT_21], PARAMETERS, || "while CC.EN is 0".into());
    let beyond = known.cap.is_some_and(|cap| c.sqsize().count() > cap.mqes().count());
    let bare = known.identify.as_ref().is_some_and(|i| i.cntrltype() == ControllerType::ADMINISTRATIVE);
    causes.add(bare, &[req::ADM_PROHIB_06, req::FAB_ASSOC_08], &[], || "of an I/O queue at an administrative controller".into());
    causes.add(beyond, &[req::FAB_CONNECT_08, req::FAB_PROP_17], PARAMETERS, || {
        format!("of {} entries, more than CAP.MQES", c.sqsize().count())
    });
    let short = command.in_capsule > 0 && (command.in_capsule as usize) < ConnectData::LEN;
    causes.add(short, &[req::FAB_CONNECT_17], &[], || format!("with {} bytes of data", command.in_capsule));
}

/// Opcodes that no revision has defined. [Base 2.0 to 2.3, Figure of opcodes for admin commands]
fn reserved_admin(opcode: u8) -> bool {
    matches!(opcode, 0x07 | 0x0f | 0x48..=0x78)
}

fn reserved_io(opcode: u8) -> bool {
    matches!(opcode, 0x24..=0x78)
}

fn admin(state: &State, sqe: &Sqe, mark: Mark, causes: &mut Causes) {
    let opcode = sqe.opc();
    let queues = matches!(opcode.0, 0x00 | 0x01 | 0x04 | 0x05);
    causes.add(queues, &[req::SQE_40, req::FAB_ASSOC_06], &[], || "over fabrics".into());
    causes.add(reserved_admin(opcode.0), &[req::SQE_09], OPCODE, || "with a reserved opcode".into());
    match opcode {
        Opcode::IDENTIFY => identify(state, &Identify::from_bytes(*sqe.as_bytes()), sqe, causes),
        Opcode::GET_LOG_PAGE => log(state, &GetLogPage::from_bytes(*sqe.as_bytes()), sqe, causes),
        Opcode::GET_FEATURES => get_feature(state, &GetFeatures::from_bytes(*sqe.as_bytes()), sqe, causes),
        Opcode::SET_FEATURES => set_feature(state, &SetFeatures::from_bytes(*sqe.as_bytes()), sqe, mark, causes),
        o => optional(state, o, causes),
    }
}

/// Commands that Identify Controller says are not there, or that a discovery controller never has.
fn optional(state: &State, opcode: Opcode, causes: &mut Causes) {
    let prohibited =
        matches!(opcode.0, 0x0d | 0x10 | 0x11 | 0x14 | 0x15 | 0x19 | 0x1a | 0x1c | 0x1d | 0x1e | 0x20 | 0x24 | 0x7c | 0x80..=0x86);
    let service = state.known.discovery() == Some(true);
    let quiet = service && opcode == Opcode::KEEP_ALIVE && state.known.identify.as_ref().is_some_and(|i| !i.oaes_dlpc());
    causes.add(quiet, &[req::ADM_KA_13, req::DISC_CTRL_07], OPCODE, || "at a discovery controller without notices".into());
    causes.add(service && prohibited, &[req::ADM_PROHIB_01, req::DISC_CTRL_10], OPCODE, || "at a discovery controller".into());
    let Some(i) = state.known.identify.as_ref().filter(|_| !service) else { return };
    let able = match opcode {
        Opcode::SECURITY_SEND | Opcode::SECURITY_RECEIVE => i.oacs_ssrs(),
        Opcode::FORMAT_NVM => i.oacs_fnvms(),
        Opcode::FIRMWARE_COMMIT | Opcode::FIRMWARE_DOWNLOAD => i.oacs_fwds(),
        Opcode::NAMESPACE_MANAGEMENT | Opcode::NAMESPACE_ATTACHMENT => i.oacs_nms(),
        Opcode::DEVICE_SELF_TEST => i.oacs_dsts(),
        Opcode::DIRECTIVE_SEND | Opcode::DIRECTIVE_RECEIVE => i.oacs_dirs(),
        Opcode::VIRTUALIZATION_MANAGEMENT => i.oacs_vms(),
        Opcode::DOORBELL_BUFFER_CONFIG => i.oacs_dbcs(),
        _ => true,
    };
    causes.add(!able, &[req::ADM_PROHIB_04], OPCODE, || "which OACS does not announce".into());
}

fn identify(state: &State, c: &Identify, sqe: &Sqe, causes: &mut Causes) {
    let (cns, nsid) = (c.cns(), sqe.nsid().0);
    causes.add((0x30..0xc0).contains(&cns.0) || cns.0 == 0xff, &[req::ADM_IDENTIFY_02, req::SQE_12], FIELD, || {
        format!("of CNS {:02x}h", cns.0)
    });
    let of_one = [Cns::NAMESPACE, Cns::NAMESPACE_DESCRIPTORS, Cns::NAMESPACE_INDEPENDENT].contains(&cns);
    causes.add(of_one && nsid == 0, &[req::SQE_16, req::FAB_STATUS_11], NAMESPACE, || format!("of CNS {:02x}h for NSID 0", cns.0));
    let managed = state.known.identify.as_ref().is_none_or(|i| i.oacs_nms());
    let all = nsid == 0xffff_ffff;
    causes.add(cns == Cns::NAMESPACE && all && !managed, &[req::ADM_IDENTIFY_12], NAMESPACE, || {
        "of CNS 00h for all namespaces".into()
    });
    let list = [Cns::ACTIVE_NAMESPACES, Cns::ACTIVE_NAMESPACES_CSI].contains(&cns) && nsid >= 0xffff_fffe;
    causes.add(list, &[req::ADM_IDENTIFY_15, req::ADM_IDENTIFY_30], NAMESPACE, || {
        format!("of CNS {:02x}h above NSID {nsid:#x}", cns.0)
    });
    let one = [Cns::ALLOCATED_NAMESPACE, Cns::ALLOCATED_NAMESPACE_CSI].contains(&cns) && all;
    causes.add(one, &[req::ADM_IDENTIFY_35], &[], || format!("of CNS {:02x}h for all namespaces", cns.0));
    causes.add(cns == Cns::ATTACHED_CONTROLLERS && all, &[req::ADM_IDENTIFY_37], &[], || "of CNS 12h for all namespaces".into());
    length(state, sqe, 4096, causes);
}

/// The SGL is shorter than what the command moves, or longer where that is not allowed. [SQE-36, SGL-06, SGL-07]
fn length(state: &State, sqe: &Sqe, due: u64, causes: &mut Causes) {
    let Some(len) = super::buffer(state, sqe).map(u64::from) else { return };
    causes.add(len < due, &[req::SGL_06, req::SQE_36], LENGTH, || format!("with an SGL of {len} bytes for {due}"));
    let strict = state.known.identify.as_ref().is_some_and(|i| !i.sgls_longer());
    causes.add(len > due && strict, &[req::SGL_07, req::SQE_36], LENGTH, || format!("with an SGL of {len} bytes for {due}"));
}

fn log(state: &State, c: &GetLogPage, sqe: &Sqe, causes: &mut Causes) {
    let known = &state.known;
    let page = c.lid();
    let size = match page {
        LogPage::SMART | LogPage::FIRMWARE_SLOT => Some(512),
        LogPage::SUPPORTED => Some(1024),
        LogPage::COMMAND_EFFECTS | LogPage::CHANGED_NAMESPACES => Some(4096),
        LogPage::DISCOVERY if c.lsp() == 0 => known.records.map(|n| n.saturating_add(1).saturating_mul(1024)),
        _ => None,
    };
    let beyond = !c.ot() && size.is_some_and(|s| c.lpo() & !3 > s);
    causes.add(beyond, &[req::ADM_LOG_05], FIELD, || format!("of LID {:02x}h at offset {:#x}", page.0, c.lpo()));
    let with = &[Status::INVALID_FIELD_IN_COMMAND, Status::INVALID_LOG_PAGE];
    let prohibited = matches!(page.0, 0x02..=0x0d | 0x0f..=0x11 | 0x14..=0x16 | 0x80 | 0x81);
    let service = known.discovery() == Some(true);
    causes.add(service && prohibited, &[req::ADM_LOG_15, req::DISC_CTRL_13], with, || {
        format!("of LID {:02x}h at a discovery controller", page.0)
    });
    let discovery = page == LogPage::DISCOVERY && known.serves_io();
    causes.add(discovery, &[req::ADM_LOG_16], with, || "of LID 70h at an I/O controller".into());
    let sanitize =
        page.0 == 0x81 && known.identify.as_ref().is_some_and(|i| !i.sanicap_ces() && !i.sanicap_bes() && !i.sanicap_ows());
    causes.add(sanitize, &[req::ADM_LOG_44], with, || "of LID 81h without Sanitize".into());
    let telemetry = matches!(page.0, 0x07 | 0x08) && !c.ot() && !c.lpo().is_multiple_of(512);
    causes.add(telemetry, &[req::ADM_LOG_37], with, || format!("of telemetry at offset {}", c.lpo()));
    length(state, sqe, (u64::from(c.numd()) + 1) * 4, causes);
}

fn get_feature(state: &State, c: &GetFeatures, sqe: &Sqe, causes: &mut Causes) {
    let fid = c.fid();
    causes.add(c.sel() >= 4, &[req::ADM_FEAT_02, req::SQE_12], FIELD, || format!("with SEL {}", c.sel()));
    no_feature(fid, causes);
    let (sensor, kind) = (c.value() >> 16 & 0xf, c.value() >> 20 & 3);
    let reserved = fid == Feature::TEMPERATURE_THRESHOLD && (sensor > 8 || kind > 1) && c.sel() != 3;
    causes.add(reserved, &[req::ADM_FEAT_46, req::SQE_12], FIELD, || format!("of sensor {sensor}, THSEL {kind}"));
    let all = sqe.nsid().0 == 0xffff_ffff && c.sel() == 0;
    causes.add(all && fid == Feature::ERROR_RECOVERY, &[req::ADM_FEAT_13], &[], || "of FID 05h for all namespaces".into());
    let reservation = all && matches!(fid, Feature::RESERVATION_NOTIFICATION_MASK | Feature::RESERVATION_PERSISTENCE);
    causes.add(reservation, &[req::ADM_FEAT_49], &[], || format!("of FID {:02x}h for all namespaces", fid.0));
    let whole = fid == Feature::HOST_IDENTIFIER && sqe.cdw11() & 1 == 1 && c.sel() == 0;
    let len = super::buffer(state, sqe).unwrap_or(16);
    causes.add(whole && len < 16, &[req::SGL_06], LENGTH, || format!("with an SGL of {len} bytes for 16"));
}

/// Features that are not there over fabrics.
fn no_feature(fid: Feature, causes: &mut Causes) {
    let interrupts = fid == Feature::INTERRUPT_COALESCING || fid == Feature::INTERRUPT_VECTOR;
    causes.add(interrupts, &[req::ADM_FEAT_21], FIELD, || format!("of FID {:02x}h over fabrics", fid.0));
    causes.add(fid.0 == 0, &[req::ADM_FEAT_01], FIELD, || "of FID 00h".into());
}

fn set_feature(state: &State, c: &SetFeatures, sqe: &Sqe, mark: Mark, causes: &mut Causes) {
    let (fid, nsid) = (c.fid(), sqe.nsid().0);
    no_feature(fid, causes);
    let zero = fid == Feature::KEEP_ALIVE_TIMER && c.value() == 0;
    causes.add(zero, &[req::ADM_KA_07, req::KA_07], &[Status::KEEP_ALIVE_TIMEOUT_INVALID], || "of KATO 0".into());
    let own = fid == Feature::HOST_IDENTIFIER;
    causes.add(own, &[req::ADM_FEAT_35, req::HOSTID_02], SEQUENCE, || "of the Host Identifier".into());
    if fid == Feature::NUMBER_OF_QUEUES {
        let most = c.value() & 0xffff == 0xffff || c.value() >> 16 == 0xffff;
        causes.add(most, &[req::ADM_FEAT_25], FIELD, || "of FFFFh queues".into());
        let late = mark.queues && state.known.queues.values().any(|stands| *stands);
        causes.add(late, &[req::ADM_FEAT_23], SEQUENCE, || "of the number of queues while I/O queues stand".into());
    }
    let wide = matches!(
        fid,
        Feature::ASYNC_EVENT_CONFIG
            | Feature::KEEP_ALIVE_TIMER
            | Feature::NUMBER_OF_QUEUES
            | Feature::ARBITRATION
            | Feature::POWER_MANAGEMENT
    );
    let named = wide && nsid != 0 && nsid != 0xffff_ffff;
    let with = &[Status::FEATURE_NOT_NAMESPACE_SPECIFIC, Status::INVALID_NAMESPACE_OR_FORMAT, Status::INVALID_FIELD_IN_COMMAND];
    causes.add(named, &[req::ADM_FEAT_11], with, || format!("of FID {:02x}h for NSID {nsid}", fid.0));
    let able = state.known.features.get(&(fid.0, 3)).copied();
    let unsaved = c.sv() && able.is_some_and(|a| a & 1 == 0);
    causes.add(unsaved, &[req::ADM_FEAT_07], &[Status::FEATURE_IDENTIFIER_NOT_SAVEABLE], || {
        format!("of FID {:02x}h to be saved", fid.0)
    });
    let default = state.known.features.get(&(fid.0, 1)).copied();
    let fixed = able.is_some_and(|a| a & 4 == 0) && default.is_some_and(|v| v != c.value()) && nsid == 0;
    causes.add(fixed, &[req::ADM_FEAT_08], &[Status::FEATURE_NOT_CHANGEABLE, Status::FEATURE_IDENTIFIER_NOT_SAVEABLE], || {
        format!("of FID {:02x}h, which cannot be changed", fid.0)
    });
    causes.add(fid.0 == 0x03 && nsid == 0xffff_ffff, &[req::ADM_FEAT_55], &[], || "of FID 03h for all namespaces".into());
    let domains =
        fid == Feature::ERROR_RECOVERY && nsid == 0xffff_ffff && state.known.identify.as_ref().is_some_and(|i| i.ctratt_mds());
    causes.add(domains, &[req::ADM_FEAT_14], FIELD, || "of FID 05h for the namespaces of several domains".into());
    let beyond = fid == Feature::HOST_BEHAVIOR && sqe.sgl1().is_in_capsule() && mark.data.iter().take(3).any(|b| *b > 1);
    causes.add(beyond, &[req::ADM_FEAT_39, req::SQE_12], FIELD, || format!("of host behavior {:02x?}", &mark.data[..3]));
    let identify = state.known.identify.as_ref();
    if fid == Feature::POWER_MANAGEMENT {
        let state_ = c.value() & 0x1f;
        let beyond = identify.is_some_and(|i| u64::from(state_) >= i.npss().count());
        causes.add(beyond, &[req::ADM_FEAT_44], FIELD, || format!("of power state {state_}"));
    }
    let groups = fid == Feature::ASYNC_EVENT_CONFIG && c.value() & 0x4000 != 0 && identify.is_some_and(|i| !i.ctratt_egs());
    causes.add(groups, &[req::ADM_FEAT_30], FIELD, || "of endurance group notices without endurance groups".into());
    let cache = fid == Feature::VOLATILE_WRITE_CACHE && identify.is_some_and(|i| !i.vwc_present());
    causes.add(cache, &[req::ADM_FEAT_42], FIELD, || "of a write cache that is not there".into());
    let (sensor, kind) = (c.value() >> 16 & 0xf, c.value() >> 20 & 3);
    let reserved = fid == Feature::TEMPERATURE_THRESHOLD && ((9..=14).contains(&sensor) || kind > 1);
    causes.add(reserved, &[req::ADM_FEAT_46, req::SQE_12], FIELD, || format!("of sensor {sensor}, THSEL {kind}"));
}

fn io(state: &State, sqe: &Sqe, causes: &mut Causes) {
    let opcode = IoOpcode(sqe.opc().0);
    let (nsid, known) = (sqe.nsid().0, &state.known);
    causes.add(reserved_io(opcode.0), &[req::SQE_09], OPCODE, || "with a reserved opcode".into());
    let flush = opcode == IoOpcode::FLUSH;
    causes.add(nsid == 0, &[req::SQE_16, req::FAB_STATUS_11], NAMESPACE, || "for NSID 0".into());
    let moves = matches!(opcode, IoOpcode::READ | IoOpcode::WRITE | IoOpcode::COMPARE);
    let ranged = moves || matches!(opcode, IoOpcode::WRITE_ZEROES | IoOpcode::VERIFY | IoOpcode::WRITE_UNCORRECTABLE);
    let with = &[Status::INVALID_FIELD_IN_COMMAND, Status::INVALID_NAMESPACE_OR_FORMAT];
    causes.add(ranged && nsid == 0xffff_ffff, &[req::SQE_18, req::SQE_17], with, || "for all namespaces".into());
    if let Some(i) = &known.identify {
        let refused = flush && nsid == 0xffff_ffff && i.vwc_fb() == 2;
        causes.add(refused, &[req::NVM_RW_15], with, || "of all namespaces, which VWC does not offer".into());
        optional_io(i, known.nvm.as_ref(), known.until(0x0001_0400), opcode, causes);
    }
    let none = known.cc.is_some_and(|c| c.en() && c.css() == 7);
    causes.add(none, &[req::SQE_45, req::FAB_PROP_31], OPCODE, || "with CC.CSS 111b".into());
    let writes = matches!(opcode, IoOpcode::WRITE | IoOpcode::WRITE_ZEROES | IoOpcode::WRITE_UNCORRECTABLE | IoOpcode::COPY);
    let closed = writes && known.spaces.get(&nsid).is_some_and(|s| s.write_protected);
    causes.add(closed, &[req::NVM_RW_38], &[], || "to a namespace that is write protected".into());
    special(state, sqe, opcode, causes);
    if !ranged {
        return;
    }
    let read = Read::from_bytes(*sqe.as_bytes());
    let blocks = read.nlb().count();
    if moves {
        let block = known.spaces.get(&nsid).map_or(512, |s| s.block);
        let due = blocks * block;
        let len = super::buffer(state, sqe).map_or(due, u64::from);
        let short = len < due;
        causes.add(short, &[req::NVM_RW_05, req::SQE_36], LENGTH, || format!("with an SGL of {len} bytes for {blocks} blocks"));
        let most = known.mdts().filter(|m| known.spaces.contains_key(&nsid) && due > *m);
        let (which, with) =
            (&[req::NVM_RW_06, req::FAB_IDENT_10], &[Status::INVALID_FIELD_IN_COMMAND, Status::DATA_SGL_LENGTH_INVALID]);
        causes.add(most.is_some(), which, with, || format!("of {due} bytes, more than MDTS"));
    }
    let wraps = read.slba().checked_add(blocks - 1).is_none();
    let beyond = known.spaces.get(&nsid).is_some_and(|s| read.slba().saturating_add(blocks) > s.nsze);
    causes.add(wraps || beyond, &[req::NVM_RW_03], &[Status::LBA_OUT_OF_RANGE], || {
        format!("of block {:#x} and {blocks} from there on", read.slba())
    });
}

/// Rules of single commands. [NVM Command Set 1.0, 3.2; Base 2.0, 7]
fn special(state: &State, sqe: &Sqe, opcode: IoOpcode, causes: &mut Causes) {
    let read = Read::from_bytes(*sqe.as_bytes());
    let known = &state.known;
    let len = super::buffer(state, sqe).map_or(u64::MAX, u64::from);
    match opcode {
        IoOpcode::VERIFY => causes.add(read.prinfo() & 8 != 0, &[req::NVM_RW_30], FIELD, || "with PRACT".into()),
        IoOpcode::DATASET_MANAGEMENT => {
            let due = DatasetManagement::from_bytes(*sqe.as_bytes()).nr().count() * 16;
            causes.add(len < due, &[req::NVM_RW_23, req::SQE_36], LENGTH, || format!("with an SGL of {len} bytes for {due}"));
        }
        IoOpcode::COPY => {
            let c = Copy::from_bytes(*sqe.as_bytes());
            let formats = known.identify.as_ref().map(|i| [i.cdfs_0(), i.cdfs_1()]);
            let format = formats.is_some_and(|f| f.get(usize::from(c.desfmt())) == Some(&false));
            causes.add(format, &[req::NVM_RW_33], FIELD, || format!("with descriptor format {}", c.desfmt()));
            let many = known.spaces.get(&sqe.nsid().0).is_some_and(|s| c.nr().count() > s.ranges);
            causes.add(many, &[req::NVM_RW_35], &[Status::COMMAND_SIZE_LIMIT_EXCEEDED], || format!("of {} ranges", c.nr().count()));
        }
        _ => reservations(sqe, causes),
    }
    limits(state, opcode, read.nlb().count(), sqe.nsid().0, causes);
}

/// Reserved values of the reservation commands, and what hosts on a fabric have to ask for. [Base 2.0, 7.2 to 7.5]
fn reservations(sqe: &Sqe, causes: &mut Causes) {
    let (dw, dw11) = (sqe.cdw10(), sqe.cdw11());
    let (action, iekey, kind) = (dw & 7, dw & 8 != 0, dw >> 8 & 0xff);
    let (most, typed) = match sqe.opc().0 {
        0x0d => (2, false),
        0x11 => (2, true),
        0x15 => (1, true),
        0x0e => {
            let with = &[Status::HOST_IDENTIFIER_INCONSISTENT_FORMAT];
            return causes.add(dw11 & 1 == 0, &[req::RES_22], with, || "with EDS 0".into());
        }
        _ => return,
    };
    let reserved = action > most || typed && kind > 6 || !typed && dw >> 30 == 1;
    causes.add(reserved, &[req::RES_26], &[], || format!("with dword 10 {dw:#x}"));
    causes.add(typed && iekey, &[req::RES_10], FIELD, || "with IEKEY".into());
}

/// Sizes above what CNS 06h allows, where ONCS does not lift the limit.
fn limits(state: &State, opcode: IoOpcode, blocks: u64, nsid: u32, causes: &mut Causes) {
    let known = &state.known;
    let (Some(i), Some(nvm), Some(cap), Some(space)) = (&known.identify, &known.nvm, known.cap, known.spaces.get(&nsid)) else {
        return;
    };
    let (limit, lifted, which): (u8, bool, &'static [&'static Requirement]) = match opcode {
        IoOpcode::WRITE_ZEROES => (nvm.wzsl(), i.oncs_wzs(), &[req::NVM_RW_22]),
        IoOpcode::VERIFY => (nvm.vsl(), i.oncs_verify(), &[req::NVM_RW_31]),
        IoOpcode::WRITE_UNCORRECTABLE => (nvm.wusl(), i.oncs_wus(), &[req::NVM_RW_32]),
        _ => return,
    };
    let most = 1u64.checked_shl(u32::from(limit) + 12 + u32::from(cap.mpsmin())).unwrap_or(u64::MAX);
    let beyond = limit != 0 && !lifted && blocks.saturating_mul(space.block) > most;
    causes.add(beyond, which, &[], || format!("of {blocks} blocks, more than its limit"));
}

/// Revisions up to 1.4 have no limits of their own, so that a bit of ONCS says all.
fn optional_io(
    i: &nvmf_wire::IdentifyController,
    nvm: Option<&IdentifyControllerNvm>,
    old: bool,
    opcode: IoOpcode,
    causes: &mut Causes,
) {
    let limited = |limit: fn(&IdentifyControllerNvm) -> bool| !old && nvm.is_none_or(limit);
    let able = match opcode {
        IoOpcode::COMPARE => i.oncs_compare(),
        IoOpcode::WRITE_UNCORRECTABLE => i.oncs_wus() || limited(|n| n.wusl() != 0),
        IoOpcode::DATASET_MANAGEMENT => i.oncs_dsm() || limited(|n| n.dmrl() != 0),
        IoOpcode::WRITE_ZEROES => i.oncs_wzs() || limited(|n| n.wzsl() != 0),
        IoOpcode::VERIFY => i.oncs_verify() || limited(|n| n.vsl() != 0),
        IoOpcode::COPY => i.oncs_copy(),
        o if matches!(o.0, 0x0d | 0x0e | 0x11 | 0x15) => i.oncs_reservs(),
        _ => true,
    };
    let reservations = matches!(opcode.0, 0x0d | 0x0e | 0x11 | 0x15);
    let which: &[_] = if reservations { &[req::NVM_RW_02, req::RES_01] } else { &[req::NVM_RW_02] };
    causes.add(!able, which, OPCODE, || "which ONCS does not announce".into());
}
