//! Command capsules: SQE, SGL, in-capsule data, queues. [Base 2.0, 3.3.3.1 and 6; NVMe/TCP 1.0, 3.3]

use nvmf_spec::{Side, req};
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::sgl::{SglKeyed, SglType};
use nvmf_wire::sqe::FabricsType;
use nvmf_wire::tcp::ADMIN_IN_CAPSULE;
use nvmf_wire::{Qid, Sqe};

use super::state::State;
use super::{Name, Out, Said, host, rdma};

/// `data` is what follows the SQE in its capsule.
pub(super) fn check(state: &State, sqe: &Sqe, data: &[u8], out: &mut Out) {
    let who = Name { session: &state.session, sqe };
    if state.session.command(sqe.cid()).is_some() {
        let which = if sqe.fctype().is_some() { req::FAB_CMD_09 } else { req::SQE_01 };
        out.at(2, 2).add(which, format_args!("{who} while a command with that CID is outstanding"), "a CID of its own");
    }
    order(state, sqe, &who, out);
    reserved(state, sqe, &who, out);
    match state.rdma.is_some() {
        true => rdma::sgl(state, sqe, &who, out),
        false => sgl(state, sqe, data, &who, out),
    }
    host::asked(state, sqe, data, &who, out);
    if sqe.fctype() == Some(FabricsType::CONNECT) {
        connect(state, sqe, out);
    }
}

/// Connect first and once, then Fabrics commands until ready; no full queue.
fn order(state: &State, sqe: &Sqe, who: Said, out: &mut Out) {
    let connect = sqe.fctype() == Some(FabricsType::CONNECT);
    if state.trusts(Side::Controller) && state.rdma.is_none() {
        out.check(
            connect || state.connected,
            req::TCP_CONN_03,
            format_args!("{who} before Connect is answered with success"),
            "Connect first",
        );
    }
    out.check(!(connect && state.connected), req::FAB_CONNECT_02, "Connect on a queue that is connected", "Connect once");
    let io = state.session.qid().is_some_and(|q| q != Qid::ADMIN);
    match sqe.fctype() {
        Some(f) => {
            let everywhere = [
                FabricsType::CONNECT,
                FabricsType::AUTHENTICATION_SEND,
                FabricsType::AUTHENTICATION_RECEIVE,
                FabricsType::DISCONNECT,
            ];
            out.check(!io || everywhere.contains(&f), req::FAB_CMD_05, format_args!("{who} on an I/O queue"), "the Admin Queue");
        }
        None if !io && state.connected && state.trusts(Side::Controller) => {
            out.check(
                state.known.ready,
                req::FAB_QUEUE_08,
                format_args!("{who} before CSTS.RDY was read as 1"),
                "only Fabrics commands",
            );
        }
        None => {}
    }
    // SUCCESS takes the place of a response and brings no SQHD, so that the host's view is behind the controller's.
    if let (Some(size), Some((head, _))) = (state.session.queue_size(), state.head)
        && !state.session.flow_control_off()
    {
        let open = (state.session.submitted() + 1).saturating_sub(head);
        for which in [req::SQE_42, req::FAB_SQFC_15] {
            let seen = format_args!("{who} makes {open} capsules not covered by SQHD");
            out.check(open < size, which, seen, format_args!("fewer than {size}, the queue size"));
        }
    }
}

fn reserved(state: &State, sqe: &Sqe, who: Said, out: &mut Out) {
    let bytes = sqe.as_bytes();
    let psdt = sqe.psdt();
    if sqe.fctype().is_some() {
        out.at(1, 1).check(psdt == 1, req::FAB_CMD_08, format_args!("{who} with PSDT {psdt}"), "01b");
    } else {
        out.at(1, 1).check(psdt == 1, req::SQE_04, format_args!("{who} with PSDT {psdt}"), "01b");
        out.at(16, 8).check(sqe.mptr() == 0, req::SQE_19, format_args!("{who} with MPTR {:#x}", sqe.mptr()), "0, it is reserved");
    }
    let (layout, known) = state.session.layout_of(sqe);
    if !known {
        return;
    }
    // Of admin and I/O commands MPTR is judged above, by its own requirement, and SGL1 below. Over RDMA every Fabrics command has a
    // keyed descriptor, and one of no bytes says nothing where SGL1 is reserved. [RDMA-SGL-05]
    let none = SglKeyed::from_bytes(*sqe.sgl1().as_bytes());
    let keyed = none.kind() == SglType::KEYED_DATA_BLOCK && none.len() == 0;
    let own = |at: usize| (24..40).contains(&at) && keyed;
    let judged = |at: usize| if sqe.fctype().is_some() { !own(at) } else { !(16..40).contains(&at) };
    let hit = super::reserved(layout).iter().zip(bytes).enumerate().find(|(at, (m, b))| *m & *b != 0 && judged(*at));
    let Some((at, _)) = hit else { return };
    let value = bytes.get(at).copied().unwrap_or(0);
    let which = match sqe.fctype() {
        Some(FabricsType::PROPERTY_GET | FabricsType::PROPERTY_SET) if (5..40).contains(&at) => req::FAB_PROP_11,
        Some(FabricsType::CONNECT) if at == 46 => req::FAB_CONNECT_12,
        Some(_) => req::FAB_CMD_10,
        None => req::SQE_11,
    };
    out.at(at, 1).add(which, format_args!("{who} with {value:#04x} in byte {at}"), "0 in what is reserved");
}

/// One descriptor, of one of two kinds, that says where the data is. [NVMe/TCP 1.0, 3.3.2]
fn sgl(state: &State, sqe: &Sqe, data: &[u8], who: Said, out: &mut Out) {
    let sgl = sqe.sgl1();
    let data = data.len() as u64;
    let admin = state.session.is_admin() || sqe.fctype().is_some();
    if admin {
        let most = u64::from(ADMIN_IN_CAPSULE);
        out.at(24, 16).check(
            data <= most,
            req::TCP_CAPSULE_02,
            format_args!("{who} with {data} bytes in capsule"),
            format_args!("{most} at most"),
        );
    }
    if sgl.len() > 0 {
        let kind = sgl.kind().0;
        out.at(24, 16).check(
            sgl.is_in_capsule() || sgl.is_transport(),
            if kind == 0 { req::TCP_SGL_04 } else { req::TCP_SGL_05 },
            format_args!("{who} with SGL descriptor {:02x}h", sgl.id()),
            "01h for data in capsule, 5Ah for a buffer",
        );
    }
    if sgl.is_in_capsule() && sgl.len() > 0 {
        let end = sgl.addr().saturating_add(u64::from(sgl.len()));
        out.at(24, 16).check(
            end == data,
            req::TCP_CAPSULE_10,
            format_args!("{who} with {data} bytes in capsule, its SGL ends at {end}"),
            "the same",
        );
    } else if data > 0 {
        out.at(24, 16).add(
            req::TCP_CAPSULE_10,
            format_args!("{who} with {data} bytes in capsule that no SGL describes"),
            "nothing undefined behind the SQE",
        );
    }
    let rest = sgl.as_bytes().get(12..15).is_some_and(|b| b.iter().any(|b| *b != 0));
    let described = sgl.is_in_capsule() || sgl.is_transport();
    out.at(36, 3).check(!(described && rest), req::SGL_16, format_args!("{who}: bytes 14:12 of its SGL descriptor are set"), "0");
    out.at(24, 16).check(
        !(sgl.is_transport() && sgl.addr() != 0),
        req::SGL_16,
        format_args!("{who}: transport SGL with address {:#x}", sgl.addr()),
        "0",
    );
}

fn connect(state: &State, sqe: &Sqe, out: &mut Out) {
    let c = Connect::from_bytes(*sqe.as_bytes());
    out.at(40, 2).check(c.recfmt() == 0, req::FAB_CONNECT_05, format_args!("RECFMT {}", c.recfmt()), "0");
    out.at(42, 2).check(c.qid().0 != 0xffff, req::FAB_CONNECT_06, "QID FFFFh", "0 to FFFEh");
    let admin = c.qid() == Qid::ADMIN;
    out.at(44, 2).check(c.sqsize().0 > 0, req::FAB_QUEUE_13, "SQSIZE 0, one entry", "two entries at least");
    out.at(46, 1).check(
        !admin || c.prio() == 0,
        req::FAB_CONNECT_10,
        format_args!("priority class {} on the Admin Queue", c.prio()),
        "0",
    );
    out.check(
        admin || c.kato() == 0,
        req::FAB_CONNECT_14,
        format_args!("KATO {} on an I/O queue", c.kato()),
        "0, it is reserved there",
    );
    let len = super::buffer(state, sqe).map_or(0, |len| len as usize);
    out.at(24, 16).check(len == ConnectData::LEN, req::FAB_CONNECT_17, format_args!("Connect with {len} bytes of data"), "1024");
}
