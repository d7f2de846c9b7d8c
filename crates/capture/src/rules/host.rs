//! Admin and I/O commands as a host fills them in, against what the controller said of itself. [Base 2.0, 5; NVM Command Set 1.0, 3]

use nvmf_spec::{Side, req};
use nvmf_wire::admin::{Cns, Feature, GetLogPage, Identify, LogPage, SetFeatures};
use nvmf_wire::authentication::AuthenticationSend;
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::nqn::DISCOVERY_NQN;
use nvmf_wire::nvm::{Compare, Read};
use nvmf_wire::sqe::{FabricsType, IoOpcode};
use nvmf_wire::{Cntlid, Opcode, Qid, Sqe, Structure};

use super::state::State;
use super::{Out, Said, event, property};

/// How far two connections may be seen out of step, nanoseconds: commands that went out before CC was written may be read after it.
const ORDER_NS: u64 = 1_000_000_000;

pub(super) fn asked(state: &State, sqe: &Sqe, data: &[u8], who: Said, out: &mut Out) {
    event::limits(state, sqe, who, out);
    out.check(sqe.cid().0 != 0xffff, req::SQE_03, format_args!("{who} with CID FFFFh"), "another, which the error log can name");
    match sqe.fctype() {
        Some(FabricsType::PROPERTY_GET | FabricsType::PROPERTY_SET) => property::asked(state, sqe, who, out),
        Some(FabricsType::CONNECT) => {
            let c = Connect::from_bytes(*sqe.as_bytes());
            let seen = format_args!("{who} of {} entries on the Admin Queue", c.sqsize().count());
            out.check(c.qid() != Qid::ADMIN || c.sqsize().count() <= 4096, req::FAB_QUEUE_14, seen, "4096 at most");
            if let Ok(d) = ConnectData::read(data) {
                connect_data(state, sqe, &d, who, out);
            }
        }
        Some(FabricsType::DISCONNECT) => {
            let rest = sqe.as_bytes().get(24..40).into_iter().chain(sqe.as_bytes().get(48..64)).flatten().any(|b| *b != 0);
            out.check(!rest && data.is_empty(), req::FAB_DISC_04, format_args!("{who} with SGL1 or bytes 63:48 set"), "0: no data");
            let busy = state.session.outstanding().count();
            for which in [req::FAB_DISC_08, req::FAB_DISC_22] {
                out.check(busy == 0, which, format_args!("{who} with {busy} commands outstanding"), "none");
            }
        }
        Some(FabricsType::AUTHENTICATION_SEND | FabricsType::AUTHENTICATION_RECEIVE) => authentication(state, sqe, who, out),
        Some(_) => {}
        None if state.session.is_admin() => admin(state, sqe, who, out),
        None => io(state, sqe, who, out),
    }
    let early = state.required && !state.authenticating && state.connected && !is_authentication(sqe);
    out.check(
        !early,
        req::FAB_QUEUE_10,
        format_args!("{who} before the authentication that Connect asked for"),
        "authentication first",
    );
    depth(state, sqe, who, out);
}

pub(super) fn is_authentication(sqe: &Sqe) -> bool {
    matches!(sqe.fctype(), Some(FabricsType::AUTHENTICATION_SEND | FabricsType::AUTHENTICATION_RECEIVE))
}

fn authentication(state: &State, sqe: &Sqe, who: Said, out: &mut Out) {
    let a = AuthenticationSend::from_bytes(*sqe.as_bytes());
    let len = super::buffer(state, sqe);
    let seen = format_args!("{who}: SGL of {} bytes, transfer length {}", len.unwrap_or(0), a.tl());
    out.check(len == Some(a.tl()), req::FAB_AUTH_01, seen, "the same");
    let ours = (a.secp().0, a.spsp0(), a.spsp1()) == (0xe9, 1, 1);
    let seen = format_args!("{who}: SECP {:02x}h, SPSP0 {}, SPSP1 {}", a.secp().0, a.spsp0(), a.spsp1());
    out.check(ours, req::FAB_AUTH_05, seen, "E9h, 1 and 1");
}

/// Keeps the times at which a host was heard of, and the log page that it reads in parts.
pub(super) fn traffic(state: &mut State, sqe: &Sqe) {
    state.authenticating |= is_authentication(sqe);
    state.known.heard_ns = Some(state.now_ns);
    if sqe.fctype().is_some() || !state.session.is_admin() {
        return;
    }
    match sqe.opc() {
        Opcode::KEEP_ALIVE => state.known.alive_ns = Some(state.now_ns),
        Opcode::GET_LOG_PAGE => {
            let c = GetLogPage::from_bytes(*sqe.as_bytes());
            match state.parts {
                _ if c.ot() || c.lsp() != 0 || !matches!(c.lid(), LogPage::DISCOVERY | LogPage::ANA) => {}
                _ if c.lpo() > 0 => state.parts = Some((c.lid().0, c.lpo())),
                Some((lid, _)) if lid == c.lid().0 => state.parts = None,
                _ => {}
            }
        }
        _ => {}
    }
}

/// The host leaves: a page that was read in parts had to be checked by its header once more.
pub(super) fn left(state: &State, by: Side, reset: bool, out: &mut Out) {
    let Some((lid, at)) = state.parts.filter(|_| by == Side::Host && !reset && state.session.outstanding().next().is_none()) else {
        return;
    };
    let seen = format_args!("log page {lid:02x}h read in parts up to offset {at:#x}, its header not again");
    let which: &[_] = if lid == LogPage::ANA.0 { &[req::ANA_08] } else { &[req::DISC_LOG_02, req::ADM_LOG_42] };
    for which in which {
        out.blame(Side::Host, which, seen, "the header read once more at the end");
    }
}

/// Keep Alive comes in time: judged is one that is later than the whole timeout, where half of it is asked for.
fn keep_alive(state: &State, who: Said, out: &mut Out) {
    let known = &state.known;
    let kato = known.features.get(&(Feature::KEEP_ALIVE_TIMER.0, 0)).copied().unwrap_or(known.kato);
    let (Some(i), true) = (&known.identify, known.serving() && kato != 0) else { return };
    let last = if i.ctratt_tbkas() { known.heard_ns } else { known.alive_ns };
    let Some(gap) = last.map(|at| state.now_ns.saturating_sub(at) / 1_000_000) else { return };
    let which = if i.ctratt_tbkas() { [req::KA_16, req::ADM_KA_12] } else { [req::KA_13, req::ADM_KA_11] };
    for which in which {
        let seen = format_args!("{who} {gap} ms after the one before");
        out.check(gap <= u64::from(kato), which, seen, format_args!("at half of the {kato} ms of KATO"));
    }
}

/// Queues without SQ flow control, and those that were deleted.
fn depth(state: &State, sqe: &Sqe, who: Said, out: &mut Out) {
    if state.session.flow_control_off()
        && let Some(size) = state.session.queue_size()
    {
        let open = state.session.outstanding().count() as u64 + 1;
        for which in [req::SQE_44, req::FAB_SQFC_12] {
            out.check(
                open < size,
                which,
                format_args!("{who} makes {open} outstanding"),
                format_args!("fewer than {size}, the queue size"),
            );
        }
    }
    let gone = state.disconnected || state.session.outstanding().any(|c| c.sqe.fctype() == Some(FabricsType::DISCONNECT));
    out.check(!gone, req::FAB_DISC_07, format_args!("{who} behind a Disconnect"), "nothing more on the queue");
    if let Some(first) = state.half {
        let right = sqe.fuse() == 2 && sqe.fctype().is_none();
        for which in [req::NVM_FUSED_02, req::FAB_TRANS_16] {
            out.check(
                right,
                which,
                format_args!("{who} behind CID {first:#06x}, the first half of a fused operation"),
                "its second half",
            );
        }
    } else if sqe.fuse() == 2 && sqe.fctype().is_none() && !state.session.is_admin() {
        for which in [req::NVM_FUSED_02, req::FAB_TRANS_16] {
            out.add(which, format_args!("{who} is a second half with no first before it"), "the first half right before it");
        }
    }
}

fn admin(state: &State, sqe: &Sqe, who: Said, out: &mut Out) {
    let nsid = sqe.nsid().0;
    let free = |which, out: &mut Out| out.check(nsid == 0, which, format_args!("{who} with NSID {nsid:#x}"), "0, it is not used");
    match sqe.opc() {
        Opcode::KEEP_ALIVE => {
            keep_alive(state, who, out);
            free(req::SQE_13, out);
        }
        Opcode::ABORT => {
            let rest = sqe.as_bytes().get(44..64).is_some_and(|b| b.iter().any(|b| *b != 0));
            out.check(nsid == 0 && !rest, req::ADM_ABORT_08, format_args!("{who} with NSID or CDW11 to 15 set"), "0");
        }
        Opcode::ASYNC_EVENT_REQUEST => {
            let rest = sqe.as_bytes().get(40..64).is_some_and(|b| b.iter().any(|b| *b != 0));
            out.check(nsid == 0 && !rest, req::ADM_AER_26, format_args!("{who} with NSID or CDW10 to 15 set"), "0");
        }
        Opcode::IDENTIFY => identify(&Identify::from_bytes(*sqe.as_bytes()), nsid, who, out),
        Opcode::GET_LOG_PAGE => log(state, &GetLogPage::from_bytes(*sqe.as_bytes()), nsid, who, out),
        Opcode::SET_FEATURES => feature(state, &SetFeatures::from_bytes(*sqe.as_bytes()), nsid, who, out),
        _ => {}
    }
}

fn identify(c: &Identify, nsid: u32, who: Said, out: &mut Out) {
    let cns = c.cns();
    let controllers =
        [Cns::ATTACHED_CONTROLLERS, Cns::CONTROLLERS, Cns::PRIMARY_CONTROLLER, Cns::SECONDARY_CONTROLLERS, Cns::COMMAND_SETS];
    let by_set = [
        Cns::NAMESPACE_CSI,
        Cns::CONTROLLER_CSI,
        Cns::ACTIVE_NAMESPACES_CSI,
        Cns::ALLOCATED_NAMESPACES_CSI,
        Cns::ALLOCATED_NAMESPACE_CSI,
    ];
    // What later revisions added may use either field.
    if cns.0 > Cns::COMMAND_SETS.0 || (0x09..0x10).contains(&cns.0) {
        return;
    }
    let who = format_args!("{who} of CNS {:02x}h", cns.0);
    out.check(
        controllers.contains(&cns) || c.cntid() == 0,
        req::ADM_IDENTIFY_07,
        format_args!("{who} with CNTID {:#x}", c.cntid()),
        "0",
    );
    out.check(by_set.contains(&cns) || c.csi() == 0, req::ADM_IDENTIFY_09, format_args!("{who} with CSI {:#x}", c.csi()), "0");
    if cns == Cns::CONTROLLER {
        out.check(nsid == 0, req::SQE_13, format_args!("{who} with NSID {nsid:#x}"), "0, it is not used");
    }
}

fn log(state: &State, c: &GetLogPage, nsid: u32, who: Said, out: &mut Out) {
    let who = format_args!("{who} of LID {:02x}h", c.lid().0);
    let back = state.parts.is_some_and(|(lid, at)| lid == c.lid().0 && c.lpo() > 0 && c.lpo() < at);
    if back && c.lid() == LogPage::DISCOVERY {
        for which in [req::DISC_LOG_02, req::ADM_LOG_42] {
            out.add(which, format_args!("{who} at offset {:#x} behind a higher one", c.lpo()), "rising offsets");
        }
    }
    if c.lid() == LogPage::DISCOVERY && state.known.discovery() == Some(true) {
        let order = state.known.cap.is_some() && state.known.identify.is_some();
        out.check(order, req::DISC_CTRL_20, format_args!("{who} before CAP and Identify Controller were read"), "both first");
    }
    out.check(c.ot() || c.lpo().is_multiple_of(4), req::ADM_LOG_03, format_args!("{who} at offset {}", c.lpo()), "a multiple of 4");
    // Pages that no event leads to.
    let quiet = matches!(c.lid(), LogPage::SUPPORTED | LogPage::COMMAND_EFFECTS | LogPage::FEATURE_EFFECTS);
    out.check(!quiet || !c.rae(), req::ADM_LOG_11, format_args!("{who} with RAE"), "0: no event leads to it");
    let per_namespace = state.known.identify.as_ref().is_some_and(|i| i.lpa_smarts());
    if c.lid() == LogPage::SMART && !per_namespace {
        out.check(nsid == 0xffff_ffff || nsid == 0, req::ADM_LOG_27, format_args!("{who} with NSID {nsid}"), "FFFFFFFFh");
    }
}

fn feature(state: &State, c: &SetFeatures, nsid: u32, who: Said, out: &mut Out) {
    match c.fid() {
        Feature::NUMBER_OF_QUEUES => {
            let late = state.known.queues.values().any(|stands| *stands);
            out.check(!late, req::ADM_FEAT_24, format_args!("{who} of 07h while I/O queues stand"), "before the first of them");
        }
        Feature::ERROR_RECOVERY if c.value() & 0x1_0000 != 0 => {
            let able = state.known.spaces.get(&nsid).is_none_or(|s| s.deallocate_error);
            out.check(able, req::ADM_FEAT_54, format_args!("{who}: DULBE for NSID {nsid}"), "only with NSFEAT bit 2");
        }
        _ => {}
    }
}

fn io(state: &State, sqe: &Sqe, who: Said, out: &mut Out) {
    let known = &state.known;
    if known.who.is_some() && state.trusts(Side::Controller) {
        for which in [req::FAB_QUEUE_09, req::RESET_11] {
            // Of two connections nobody can tell which was first, unless time lies between.
            let close = state.now_ns.saturating_sub(known.wrote_ns) <= ORDER_NS;
            let ready = known.ready || known.enable == super::known::Enable::Unknown || close;
            out.check(ready, which, format_args!("{who} while CSTS.RDY was not read as 1"), "only when the controller is ready");
        }
    }
    let read = Read::from_bytes(*sqe.as_bytes());
    let opcode = IoOpcode(sqe.opc().0);
    let prinfo = read.prinfo();
    match opcode {
        IoOpcode::READ | IoOpcode::WRITE => {
            let blocks = read.nlb().count();
            if let (Some(most), Some(space)) = (known.mdts(), known.spaces.get(&sqe.nsid().0)) {
                let bytes = blocks * space.block;
                for which in [req::NVM_RW_07, req::FAB_IDENT_11] {
                    out.check(
                        bytes <= most,
                        which,
                        format_args!("{who} of {bytes} bytes"),
                        format_args!("{most} at most, by MDTS"),
                    );
                }
            }
        }
        IoOpcode::COMPARE => {
            let action = Compare::from_bytes(*sqe.as_bytes()).prinfo() & 8 != 0;
            out.check(!action, req::NVM_RW_19, format_args!("{who} with PRACT"), "0");
        }
        IoOpcode::WRITE_ZEROES => {
            out.check(
                prinfo & 7 == 0 && !read.stc(),
                req::NVM_RW_21,
                format_args!("{who} with PRCHK {:03b}b, STC {}", prinfo & 7, read.stc()),
                "0",
            );
        }
        _ => {}
    }
    if let Some(i) = &known.identify {
        let most = (u64::from(i.ioccsz()) * 16).saturating_sub(64);
        let sgl = sqe.sgl1();
        let inside = if sgl.is_in_capsule() { u64::from(sgl.len()) } else { 0 };
        let tcp = [req::TCP_CAPSULE_06, req::TCP_CAPSULE_07].into_iter().filter(|_| state.rdma.is_none());
        for which in tcp.chain([req::FAB_TRANS_08, req::SQE_29]) {
            out.check(
                inside <= most,
                which,
                format_args!("{who} with {inside} bytes in its capsule"),
                format_args!("{most} at most, by IOCCSZ"),
            );
        }
    }
}

/// The data of a Connect by itself, and against the association that it names.
pub(super) fn connect_data(state: &State, sqe: &Sqe, d: &ConnectData, who: Said, out: &mut Out) {
    let c = Connect::from_bytes(*sqe.as_bytes());
    let known = &state.known;
    let entries = c.sqsize().count();
    out.check(d.hostid() != [0; 16], req::FAB_CONNECT_19, "HOSTID 0", "not zero");
    if let Some(at) = super::reserved_at(ConnectData::LAYOUT, d.bytes()) {
        out.add(req::FAB_CONNECT_17, format_args!("Connect data with byte {at} set"), "0 in what is reserved");
    }
    names(d, who, out);
    if c.qid() == Qid::ADMIN {
        let fixed = d.subnqn().as_str() == DISCOVERY_NQN && d.cntlid() != Cntlid::DYNAMIC;
        return out.check(
            !fixed,
            req::FAB_CNTLID_02,
            format_args!("{who} to a discovery service with a CNTLID of its own"),
            "FFFFh: it is dynamic",
        );
    }
    let Some(w) = &known.who else { return };
    let same = d.hostid() == w.hostid && d.hostnqn().as_str() == w.hostnqn;
    out.check(
        same,
        req::FAB_CONNECT_24,
        format_args!("{who}: another host than that of controller {}", w.cntlid.0),
        "the host of the association",
    );
    if !same || !state.trusts(Side::Controller) {
        return;
    }
    let up = known.ready || known.enable == super::known::Enable::Unknown;
    for which in [req::FAB_CONNECT_22, req::FAB_QUEUE_11] {
        out.check(up, which, format_args!("{who} before CSTS.RDY was read as 1"), "a controller that is ready");
    }
    if known.resets == 0 {
        let asked = known.set.contains(&Feature::NUMBER_OF_QUEUES.0) && known.cap.is_some();
        for which in [req::FAB_QUEUE_18, req::FAB_INIT_05] {
            out.check(asked, which, format_args!("{who} without CAP.MQES and Number of Queues"), "both asked for before");
        }
        out.check(
            known.identify.is_some(),
            req::FAB_INIT_04,
            format_args!("{who} without Identify Controller"),
            "Identify Controller before",
        );
    }
    if let Some(cap) = known.cap {
        let most = cap.mqes().count();
        out.check(
            entries <= most,
            req::FAB_QUEUE_14,
            format_args!("{who} of {entries} entries"),
            format_args!("{most} at most, by CAP.MQES"),
        );
    }
    if let Some(cc) = known.cc.filter(|c| c.en()) {
        let sizes = (cc.iosqes(), cc.iocqes());
        out.check(sizes == (6, 4), req::RESET_15, format_args!("{who} with IOSQES {}, IOCQES {}", sizes.0, sizes.1), "6 and 4");
    }
}

/// Host and subsystem name: UTF-8, ended by a NUL, of one of the forms. [Base 2.0, 4.5]
fn names(d: &ConnectData, who: Said, out: &mut Out) {
    let bytes = d.as_bytes();
    for (name, field) in [("SUBNQN", bytes.get(256..512)), ("HOSTNQN", bytes.get(512..768))] {
        let field = field.unwrap_or(&[]);
        let end = field.iter().position(|b| *b == 0);
        let text = field.get(..end.unwrap_or(field.len())).unwrap_or(&[]);
        let seen = format_args!("{who}: {name} {:?}", String::from_utf8_lossy(text));
        out.check(end.is_some() && std::str::from_utf8(text).is_ok(), req::NQN_01, seen, "UTF-8, ended by a NUL");
        out.check(
            text.len() <= 223 || end.is_none(),
            req::NQN_02,
            format_args!("{who}: {name} of {} bytes", text.len()),
            "223 at most",
        );
        if end.is_none() {
            continue;
        }
        out.check(text.starts_with(b"nqn."), req::NQN_03, seen, "nqn. at its head");
        out.check(!own_domain(text), req::NQN_05, seen, "another domain than org.nvmexpress");
        if let Some(uuid) = text.strip_prefix(b"nqn.2014-08.org.nvmexpress:uuid:") {
            out.check(is_uuid(uuid), req::NQN_06, seen, "a UUID of 8-4-4-4-12 hexadecimal digits");
        }
    }
}

/// A name of the first form in the domain of NVM Express, which is for the two other forms. [NQN-05]
pub(super) fn own_domain(text: &[u8]) -> bool {
    let own = text.get(12..).is_some_and(|rest| rest.starts_with(b"org.nvmexpress:"));
    own && !text.starts_with(b"nqn.2014-08.org.nvmexpress:uuid:")
}

fn is_uuid(text: &[u8]) -> bool {
    let dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.len() == 36 && text.iter().enumerate().all(|(at, b)| if dash(at) { *b == b'-' } else { b.is_ascii_hexdigit() })
}
