//! Properties: what the host writes and asks for, and what the controller gives. [Base 2.0, 3.1.3, 3.5 and 6.5]

use nvmf_spec::req;
use nvmf_wire::property::{Cap, Cc, Crto, Csts, Property, PropertyGet, PropertySet};
use nvmf_wire::sqe::FabricsType;
use nvmf_wire::{Cqe, Sqe, Structure};

use super::identify::V2_0;
use super::known::{Enable, Known};
use super::state::State;
use super::{Out, Said};

/// Unit of CAP.TO, nanoseconds.
const TO_NS: u64 = 500_000_000;
/// Properties of other transports, reserved here: INTMS, INTMC, AQA, ASQ, ACQ, CMB, boot partition, PMR. [Base 2.0, Figure 35]
const RESERVED: &[u32] = &[
    0x0c, 0x10, 0x24, 0x28, 0x30, 0x38, 0x3c, 0x40, 0x44, 0x48, 0x50, 0x58, 0x5c, 0xe00, 0xe04, 0xe08, 0xe0c, 0xe10, 0xe14, 0xe18,
];

/// What the host asks for.
pub(super) fn asked(state: &State, sqe: &Sqe, who: Said, out: &mut Out) {
    let get = PropertyGet::from_bytes(*sqe.as_bytes());
    let (ofst, attrib) = (get.ofst(), get.attrib());
    out.check(attrib <= 1, req::FAB_PROP_07, format_args!("{who} with ATTRIB {attrib}"), "000b or 001b");
    if attrib <= 1 {
        let size = if attrib == 1 { 8 } else { 4 };
        let own = ofst.size().is_none_or(|s| s == size) && !inside(ofst.0);
        for which in [req::FAB_PROP_01, req::RESET_30] {
            out.check(own, which, format_args!("{who} of {size} bytes at {:#x}", ofst.0), "the property's own start and width");
        }
    }
    if sqe.fctype() != Some(FabricsType::PROPERTY_SET) {
        return;
    }
    let set = PropertySet::from_bytes(*sqe.as_bytes());
    let high = set.value() >> 32;
    out.check(
        attrib != 0 || high == 0,
        req::FAB_PROP_08,
        format_args!("{who} with {high:#x} in bytes 55:52"),
        "0 for a property of 4 bytes",
    );
    if ofst == Property::CC && attrib == 0 {
        configure(&state.known, Cc::read(&set.value().to_le_bytes()).unwrap_or_default(), who, out);
    }
}

/// True for an offset within a property that is not its start.
fn inside(ofst: u32) -> bool {
    let starts = [(0x00, 8), (0x08, 4), (0x14, 4), (0x1c, 4), (0x20, 4), (0x64, 4), (0x68, 4)];
    starts.iter().any(|(from, len)| ofst > *from && ofst < from + len)
}

/// What the host writes into CC.
fn configure(known: &Known, cc: Cc, who: Said, out: &mut Out) {
    if let Some(at) = super::reserved_at(Cc::LAYOUT, cc.as_bytes()) {
        for which in [req::FAB_PROP_06, req::RESET_28] {
            out.add(which, format_args!("{who}: CC {:02x?}, reserved in byte {at}", cc.as_bytes()), "0");
        }
    }
    let modes = (cc.ams(), cc.mps(), cc.css());
    let seen = format_args!("{who}: AMS {}, MPS {}, CSS {}", modes.0, modes.1, modes.2);
    if known.discovery() == Some(true) {
        for which in [req::FAB_PROP_30, req::RESET_19] {
            out.check(modes == (0, 0, 0), which, seen, "0 for a discovery controller");
        }
    }
    if let Some(was) = known.cc.filter(|c| c.en() && cc.en()) {
        for which in [req::FAB_PROP_27, req::RESET_12] {
            out.check(
                modes == (was.ams(), was.mps(), was.css()),
                which,
                format_args!("{} while EN is 1", seen),
                "a change only while EN is 0",
            );
        }
    }
    toggle(known, cc, who, out);
    if !cc.en() {
        return;
    }
    let valid = matches!(cc.ams(), 0 | 1 | 7) && matches!(cc.css(), 0 | 6 | 7);
    out.check(valid, req::FAB_INIT_03, seen, "values that are not reserved");
    let first = known.who.is_some() && known.resets == 0 && known.cc.is_some_and(|c| !c.en());
    out.check(!first || known.cap.is_some(), req::FAB_INIT_01, format_args!("{who}: EN is set before CAP was read"), "CAP first");
    let Some(cap) = known.cap else { return };
    let pages = (cap.mpsmin()..=cap.mpsmax()).contains(&cc.mps());
    let arbitration = match cc.ams() {
        1 => cap.ams() & 1 != 0,
        7 => cap.ams() & 2 != 0,
        _ => true,
    };
    let asked = format_args!("MPS {} to {}, AMS by CAP", cap.mpsmin(), cap.mpsmax());
    out.check(pages && arbitration, req::FAB_PROP_28, seen, asked);
    out.check(pages, req::RESET_13, seen, asked);
    if known.discovery() == Some(true) {
        return;
    }
    let due = if cap.css_none() {
        7
    } else if cap.css_sets() {
        6
    } else {
        0
    };
    for which in [req::FAB_INIT_02, req::RESET_18] {
        out.check(cc.css() == due, which, format_args!("{who}: CSS {:03b}b", cc.css()), format_args!("{due:03b}b, by CAP.CSS"));
    }
}

/// EN follows RDY, as the host last read it since it last wrote CC.
fn toggle(known: &Known, cc: Cc, who: Said, out: &mut Out) {
    let (Some(was), Some(csts)) = (known.cc, known.csts) else { return };
    if was.en() == cc.en() {
        return;
    }
    let right = if cc.en() { !csts.rdy() } else { csts.rdy() || csts.cfs() };
    let seen = format_args!("{who}: EN becomes {} where RDY was last read as {}", u8::from(cc.en()), u8::from(csts.rdy()));
    for which in [req::FAB_INIT_09, req::RESET_05] {
        out.check(right, which, seen, "EN turned only when RDY has followed");
    }
}

/// What the controller gives.
pub(super) fn answered(state: &State, sqe: &Sqe, cqe: &Cqe, who: Said, out: &mut Out) {
    let get = PropertyGet::from_bytes(*sqe.as_bytes());
    if sqe.fctype() != Some(FabricsType::PROPERTY_GET) || !cqe.status().is_success() || get.attrib() > 1 {
        return;
    }
    let value = u64::from(cqe.dw0()) | u64::from(cqe.dw1()) << 32;
    let who = format_args!("{who} at {:#x}: {value:#x}", get.ofst().0);
    let wide = get.attrib() == 1;
    match get.ofst() {
        Property::CAP if wide => cap(state, Cap::read(&value.to_le_bytes()).unwrap_or_default(), &who, out),
        Property::VS if !wide => {
            let published = [0x0001_0000, 0x0001_0100, 0x0001_0200, 0x0001_0201, 0x0001_0300, 0x0001_0400, V2_0];
            let later = cqe.dw0() > V2_0 && cqe.dw0() >> 8 != V2_0 >> 8;
            out.check(later || published.contains(&cqe.dw0()), req::FAB_PROP_16, who, "a published revision");
        }
        Property::CC if !wide => configured(&state.known, Cc::read(&value.to_le_bytes()).unwrap_or_default(), &who, out),
        Property::CSTS if !wide => status(state, sqe, Csts::read(&value.to_le_bytes()).unwrap_or_default(), &who, out),
        Property::NSSR | Property::NSSD => {
            for which in [req::FAB_PROP_33, req::RESET_31] {
                out.check(value == 0, which, who, "0");
            }
        }
        Property::CRTO if !wide => timeouts(&state.known, Crto::read(&value.to_le_bytes()).unwrap_or_default(), &who, out),
        p if RESERVED.contains(&p.0) || p.0 >= 0x1000 => {
            let which = if p.0 >= 0x1000 { req::FAB_PROP_05 } else { req::FAB_PROP_14 };
            out.check(value == 0, which, who, "0, it is reserved");
            out.check(value == 0, req::RESET_28, who, "0, it is reserved");
        }
        _ => {}
    }
}

fn cap(state: &State, cap: Cap, who: Said, out: &mut Out) {
    let known = &state.known;
    out.check(cap.mqes().0 >= 1, req::FAB_PROP_17, format_args!("{who}: MQES 0"), "1 at least: two entries");
    // Administrative controllers, which have no I/O command set, are not named.
    if !cap.css_none() {
        out.check(cap.cqr(), req::FAB_PROP_18, format_args!("{who}: CQR 0"), "1");
        let strides = known.discovery() == Some(true) || cap.dstrd() == 0;
        out.check(strides, req::FAB_PROP_19, format_args!("{who}: DSTRD {}", cap.dstrd()), "0");
    }
    out.check(!cap.nsss() || cap.nssrs(), req::FAB_PROP_21, format_args!("{who}: NSSS without NSSRS"), "both");
    out.check(!cap.nsss() || cap.cps() != 0, req::FAB_PROP_21, format_args!("{who}: NSSS with CPS 00b"), "a scope");
    if known.vs.is_some_and(|v| v >= V2_0) {
        for which in [req::FAB_PROP_20, req::RESET_17] {
            out.check(cap.crwms(), which, format_args!("{who}: CRWMS 0"), "1 from revision 2.0 on");
        }
    }
    if known.discovery() == Some(true) {
        let clear = cap.mpsmin() == 0 && cap.mpsmax() == 0 && cap.ams() == 0 && !cap.nssrs();
        out.check(clear, req::FAB_PROP_22, format_args!("{who}: MPSMIN, MPSMAX, AMS or NSSRS of a discovery controller"), "0");
        let nvm = cap.css_nvm() && cap.css_rest() == 0 && !cap.css_sets() && !cap.css_none();
        out.check(nvm, req::FAB_PROP_23, format_args!("{who}: CSS of a discovery controller"), "bit 0 alone");
    }
}

/// CC as it is read: what was written, but for bits that are read-only.
fn configured(known: &Known, cc: Cc, who: Said, out: &mut Out) {
    let reserved = super::reserved_at(Cc::LAYOUT, cc.as_bytes());
    for which in [req::FAB_PROP_05, req::RESET_28] {
        out.check(reserved.is_none(), which, format_args!("{who}: a reserved bit of CC"), "0");
    }
    if known.discovery() == Some(true) {
        for which in [req::RESET_14, req::FAB_PROP_29] {
            out.check(cc.iosqes() == 0 && cc.iocqes() == 0, which, format_args!("{who}: IOSQES or IOCQES without I/O queues"), "0");
        }
    }
    if known.enable == Enable::Unknown {
        return;
    }
    let was = known.cc.unwrap_or_default();
    let fresh = known.enable == Enable::Off && known.turned_ns.is_none();
    out.check(!fresh || !cc.en(), req::FAB_QUEUE_04, format_args!("{who}: EN 1 on a new Admin Queue"), "0");
    out.check(
        cc.en() == was.en(),
        req::RESET_09,
        format_args!("{who}: EN {}", u8::from(cc.en())),
        format_args!("{}, as written", u8::from(was.en())),
    );
    let ghosts = cc.as_bytes().iter().zip(was.as_bytes()).take(3).any(|(now, then)| now & !then != 0);
    // What a write held that cleared EN is undefined.
    out.check(
        !ghosts || !was.en() && !fresh,
        req::RESET_09,
        format_args!("{who}: bits that were not written"),
        "what was written, 0 at first",
    );
    if known.cap.is_some_and(|c| !(c.crims() && c.crwms())) {
        for which in [req::RESET_16, req::FAB_PROP_32] {
            out.check(!cc.crime(), which, format_args!("{who}: CRIME 1"), "0 unless CAP.CRMS is 11b");
        }
    }
}

/// CSTS: RDY follows EN within CAP.TO.
fn status(state: &State, sqe: &Sqe, csts: Csts, who: Said, out: &mut Out) {
    let known = &state.known;
    let reserved = super::reserved_at(Csts::LAYOUT, csts.as_bytes());
    for which in [req::FAB_PROP_05, req::RESET_28] {
        out.check(reserved.is_none(), which, format_args!("{who}: a reserved bit of CSTS"), "0");
    }
    out.check(csts.shst() != 3, req::FAB_PROP_05, format_args!("{who}: SHST 11b"), "00b to 10b");
    let asked = known.shut || known.enable == Enable::Unknown || csts.st() || csts.cfs();
    out.check(
        asked || csts.shst() == 0 || known.resets == 0 && known.turned_ns.is_none(),
        req::RESET_24,
        format_args!("{who}: SHST {} without a shutdown", csts.shst()),
        "00b",
    );
    let due = match known.enable {
        Enable::On => true,
        Enable::Off => false,
        Enable::Unknown => return,
    };
    if csts.rdy() == due || csts.cfs() || known.shut {
        return;
    }
    let Some(since) = known.turned_ns else {
        return out.add(req::RESET_02, format_args!("{who}: RDY 1, and CC.EN was never set"), "0");
    };
    // From the answer to the write until the question: both ends are on the controller's side.
    let asked_ns = state.marks.get(&sqe.cid().0).map_or(state.now_ns, |m| m.at_ns);
    let waited = asked_ns.saturating_sub(since);
    // FFh is the most that TO can say; CRTO may say more.
    let Some(to) = known.cap.map(|c| u64::from(c.to())).filter(|t| *t < 255) else { return };
    if waited > to * TO_NS {
        let seen =
            format_args!("{who}: RDY {} for {} ms after CC.EN became {}", u8::from(csts.rdy()), waited / 1_000_000, u8::from(due));
        for which in [req::RESET_03, req::RESET_02, req::FAB_INIT_08] {
            out.add(which, seen, format_args!("{} within {} ms, by CAP.TO", u8::from(due), to * 500));
        }
    }
}

fn timeouts(known: &Known, crto: Crto, who: Said, out: &mut Out) {
    if known.discovery() == Some(true) {
        let none = crto.crwmt() == 0 && crto.crimt() == 0;
        return out.check(none, req::FAB_PROP_13, who, "0 at a discovery controller");
    }
    out.check(crto.crwmt() >= crto.crimt(), req::FAB_PROP_25, format_args!("{who}: CRWMT below CRIMT"), "no less");
    if known.cap.is_some_and(|c| !c.crims()) {
        out.check(crto.crimt() == 0, req::FAB_PROP_25, format_args!("{who}: CRIMT without CRIMS"), "0");
    }
    out.check(crto.crimt() <= 0xff, req::FAB_PROP_26, format_args!("{who}: CRIMT {}", crto.crimt()), "FFh at most");
}
