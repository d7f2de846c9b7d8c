//! The data of Identify, Get Log Page and Get Features once it is whole: which table it is, and what is learnt from it.

use nvmf_wire::admin::{Cns, GetFeatures, GetLogPage, Identify, LogPage};
use nvmf_wire::identify::IdentifyControllerNvm;
use nvmf_wire::log::{DiscoveryHeader, ErrorEntry, Smart};
use nvmf_wire::{Cqe, IdentifyController, IdentifyNamespace, Opcode, Sqe, Structure};

use super::known::Counted;
use super::state::State;
use super::{Out, Said, discovery, feature, identify, log, namespace};

/// Judges the data of a command that succeeded.
pub(super) fn check(state: &State, sqe: &Sqe, cqe: &Cqe, who: Said, out: &mut Out) {
    let Some(data) = state.answers.get(sqe.cid().0).filter(|_| cqe.status().is_success() && sqe.fctype().is_none()) else { return };
    let mut inner = Out::new(out.dir);
    inner.part(0, data.len());
    judge(state, sqe, data, who, &mut inner);
    out.of_data(data, inner);
}

fn judge(state: &State, sqe: &Sqe, data: &[u8], who: Said, out: &mut Out) {
    match sqe.opc() {
        Opcode::IDENTIFY => {
            let c = Identify::from_bytes(*sqe.as_bytes());
            if data.len() < 4096 {
                return;
            }
            match c.cns() {
                Cns::CONTROLLER => identify::controller(state, data, who, out),
                Cns::NAMESPACE => namespace::namespace(state, sqe.nsid().0, data, who, out),
                Cns::ACTIVE_NAMESPACES | Cns::ACTIVE_NAMESPACES_CSI | Cns::ALLOCATED_NAMESPACES => {
                    namespace::list(state, c.cns(), sqe.nsid().0, data, who, out);
                }
                Cns::NAMESPACE_DESCRIPTORS => namespace::descriptors(state, sqe.nsid().0, data, who, out),
                Cns::NAMESPACE_INDEPENDENT => namespace::independent(state, sqe.nsid().0, data, who, out),
                Cns::UUIDS => identify::uuids(state, data, who, out),
                Cns::COMMAND_SETS => identify::command_sets(c.cntid(), data, who, out),
                Cns::CONTROLLER_CSI if c.csi() == 0 => identify::controller_nvm(data, who, out),
                Cns::ATTACHED_CONTROLLERS | Cns::CONTROLLERS => identify::controllers(c.cntid(), data, who, out),
                _ => {}
            }
        }
        Opcode::GET_LOG_PAGE => {
            let c = GetLogPage::from_bytes(*sqe.as_bytes());
            if c.ot() {
                return;
            }
            match c.lid() {
                LogPage::DISCOVERY if c.lsp() == 0 => discovery::log(state, c.lpo(), data, who, out),
                // SMART of a namespace counts for that namespace.
                LogPage::SMART if !matches!(sqe.nsid().0, 0 | 0xffff_ffff) => {}
                page if c.lpo() == 0 => {
                    let done = state.marks.get(&sqe.cid().0).map_or((0, 0), |m| m.io_done);
                    log::page(state, page, done, data, who, out);
                }
                _ => {}
            }
        }
        Opcode::GET_FEATURES => {
            let c = GetFeatures::from_bytes(*sqe.as_bytes());
            match (c.fid().0, c.sel()) {
                (0x81, 0) => feature::host_id(state, sqe, data, who, out),
                (0x16, 0) => feature::behavior(state, data, who, out),
                _ => {}
            }
        }
        _ => {}
    }
}

/// Takes over what the data of an admin command tells of the controller.
pub(super) fn learn(state: &mut State, sqe: &Sqe, success: bool) {
    if !success || sqe.fctype().is_some() {
        return;
    }
    if sqe.opc() == Opcode::SET_FEATURES && sqe.cdw10() as u8 == 0x16 {
        let data = state.marks.get(&sqe.cid().0).map(|m| m.data).filter(|_| sqe.sgl1().is_in_capsule());
        state.known.behavior_data = data;
    }
    let Some(data) = state.answers.get(sqe.cid().0) else { return };
    match sqe.opc() {
        Opcode::IDENTIFY if data.len() >= 4096 => match Identify::from_bytes(*sqe.as_bytes()).cns() {
            Cns::CONTROLLER => state.known.identify = data.first_chunk().map(|b| Box::new(IdentifyController::from_bytes(*b))),
            Cns::CONTROLLER_CSI if Identify::from_bytes(*sqe.as_bytes()).csi() == 0 => {
                state.known.nvm = IdentifyControllerNvm::read(data).ok();
            }
            Cns::NAMESPACE => {
                if let Some(bytes) = data.first_chunk() {
                    state.known.space(sqe.nsid().0, &IdentifyNamespace::from_bytes(*bytes));
                }
            }
            _ => {}
        },
        Opcode::GET_LOG_PAGE => {
            let c = GetLogPage::from_bytes(*sqe.as_bytes());
            match (c.lid(), c.lpo()) {
                (LogPage::DISCOVERY, 0) if data.len() >= 16 => {
                    state.known.records = Some(<DiscoveryHeader as Structure>::with_bytes(data).numrec());
                }
                (LogPage::ERROR, 0) => {
                    state.known.newest_error = ErrorEntry::read(data).ok().map(|e| e.count()).filter(|n| *n != 0);
                }
                (LogPage::SMART, 0) if matches!(sqe.nsid().0, 0 | 0xffff_ffff) => {
                    if let Ok(s) = Smart::read(data) {
                        let io_done = state.known.io_done;
                        state.known.smart_errors = Some(log::counter(s.error_entries()));
                        let (reads, writes) = (log::counter(s.host_reads()), log::counter(s.host_writes()));
                        state.known.smart = Some(Counted { reads, writes, io_done });
                    }
                }
                _ => {}
            }
        }
        _ => {}
    }
}
