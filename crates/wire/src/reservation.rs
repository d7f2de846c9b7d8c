//! Reservations: four I/O commands, the data that they carry, and what Reservation Report returns. [Base 2.0, 7.2 to 7.5 and 8.19]
//!
//! Start with [`ReservationRegister`]. A controller over fabrics has 128-bit host identifiers, so it reports the extended form:
//! [`ReservationStatusExtended`] and entries of [`RegisteredControllerExtended`], see [`read_extended_status`].

use alloc::vec::Vec;

use crate::layout::{DecodeError, Structure};
use crate::open::{Cntlid, ZeroBased32};
use crate::sqe::Sqe;

layout! {
    /// Reservation Register command; its data is [`RegisterData`]. [Base 2.0, 7.3, Figures 395 and 396]
    pub struct ReservationRegister[64] of Sqe without 8..24, 40..64 {
        rrega: RegisterAction @ 40 [2:0] "Reservation Register Action (RREGA)",
        iekey: bool @ 40 [3] "Ignore Existing Key (IEKEY)",
        disnsrs: bool @ 40 [4] "Dispersed Namespace Reservation Support (DISNSRS); later than 2.0",
        cptpl: u8 @ 40 [31:30] "Change Persist Through Power Loss State (CPTPL): 0 no change, 2 clear, 3 set",
    }

    /// Reservation Report command. NUMD may ask for a part, or for more than there is. [Base 2.0, 7.5, Figures 401 to 403]
    pub struct ReservationReport[64] of Sqe without 8..24, 40..64 {
        numd: ZeroBased32 @ 40 "Number of Dwords (NUMD), 0's based",
        eds: bool @ 44 [0] "Extended Data Structure (EDS): 1 for 128-bit host identifiers",
        disnsrs: bool @ 44 [1] "Dispersed Namespace Reservation Support (DISNSRS); later than 2.0",
    }

    /// Reservation Acquire command; its data is [`AcquireData`]. IEKEY is to be 0 since 1.3. [Base 2.0, 7.2, Figures 391 and 392]
    pub struct ReservationAcquire[64] of Sqe without 8..24, 40..64 {
        racqa: AcquireAction @ 40 [2:0] "Reservation Acquire Action (RACQA)",
        iekey: bool @ 40 [3] "Ignore Existing Key (IEKEY)",
        disnsrs: bool @ 40 [4] "Dispersed Namespace Reservation Support (DISNSRS); later than 2.0",
        rtype: ReservationType @ 41 "Reservation Type (RTYPE)",
    }

    /// Reservation Release command; its data is [`ReleaseData`]. IEKEY is to be 0 since 1.3. [Base 2.0, 7.4, Figures 398 and 399]
    pub struct ReservationRelease[64] of Sqe without 8..24, 40..64 {
        rrela: ReleaseAction @ 40 [2:0] "Reservation Release Action (RRELA)",
        iekey: bool @ 40 [3] "Ignore Existing Key (IEKEY)",
        disnsrs: bool @ 40 [4] "Dispersed Namespace Reservation Support (DISNSRS); later than 2.0",
        rtype: ReservationType @ 41 "Reservation Type (RTYPE)",
    }

    /// Data of Reservation Register. [Base 2.0, 7.3, Figure 397]
    pub struct RegisterData[16] {
        crkey: u64 @ 0 "Current Reservation Key (CRKEY)",
        nrkey: u64 @ 8 "New Reservation Key (NRKEY)",
    }

    /// Data of Reservation Acquire. [Base 2.0, 7.2, Figure 393]
    pub struct AcquireData[16] {
        crkey: u64 @ 0 "Current Reservation Key (CRKEY)",
        prkey: u64 @ 8 "Preempt Reservation Key (PRKEY)",
    }

    /// Data of Reservation Release. [Base 2.0, 7.4, Figure 400]
    pub struct ReleaseData[8] {
        crkey: u64 @ 0 "Current Reservation Key (CRKEY)",
    }

    /// Head of a report with EDS 0; entries of [`RegisteredController`] follow. [Base 2.0, 7.5, Figure 404]
    pub struct ReservationStatus[24] {
        generation: u32 @ 0 "Generation (GEN), wraps to 0",
        rtype: ReservationType @ 4 "Reservation Type (RTYPE), 0 none",
        regctl: u16 @ 5 "Number of Registered Controllers (REGCTL)",
        ptpls: u8 @ 9 "Persist Through Power Loss State (PTPLS): 0 released at power on, 1 kept",
    }

    /// Entry of a report with EDS 0. [Base 2.0, 7.5, Figure 406]
    pub struct RegisteredController[24] {
        cntlid: Cntlid @ 0 "Controller ID (CNTLID), FFFFh where no controller is associated",
        holder: bool @ 2 [0] "Reservation Status (RCSTS): the host holds the reservation",
        hostid: u64 @ 8 "Host Identifier (HOSTID)",
        rkey: u64 @ 16 "Reservation Key (RKEY)",
    }

    /// Head of a report with EDS 1; entries of [`RegisteredControllerExtended`] follow. [Base 2.0, 7.5, Figure 405]
    pub struct ReservationStatusExtended[64] {
        generation: u32 @ 0 "Generation (GEN), wraps to 0",
        rtype: ReservationType @ 4 "Reservation Type (RTYPE), 0 none",
        regctl: u16 @ 5 "Number of Registered Controllers (REGCTL)",
        ptpls: u8 @ 9 "Persist Through Power Loss State (PTPLS): 0 released at power on, 1 kept",
    }

    /// Entry of a report with EDS 1. HOSTID is 16 bytes in wire order. [Base 2.0, 7.5, Figure 407]
    pub struct RegisteredControllerExtended[64] {
        cntlid: Cntlid @ 0 "Controller ID (CNTLID), FFFFh where no controller is associated",
        holder: bool @ 2 [0] "Reservation Status (RCSTS): the host holds the reservation",
        rkey: u64 @ 8 "Reservation Key (RKEY)",
        hostid: [u8; 16] @ 16 "Host Identifier (HOSTID)",
    }
}

open_enum! {
    /// Reservation Type (RTYPE). [Base 2.0, 7.2, Figure 394]
    pub struct ReservationType(u8) {
        WRITE_EXCLUSIVE = 1 "Write Exclusive",
        EXCLUSIVE_ACCESS = 2 "Exclusive Access",
        WRITE_EXCLUSIVE_REGISTRANTS = 3 "Write Exclusive, Registrants Only",
        EXCLUSIVE_ACCESS_REGISTRANTS = 4 "Exclusive Access, Registrants Only",
        WRITE_EXCLUSIVE_ALL = 5 "Write Exclusive, All Registrants",
        EXCLUSIVE_ACCESS_ALL = 6 "Exclusive Access, All Registrants",
    }
    /// Reservation Register Action (RREGA). [Base 2.0, 7.3, Figure 396]
    pub struct RegisterAction(u8) {
        REGISTER = 0 "register",
        UNREGISTER = 1 "unregister",
        REPLACE = 2 "replace",
    }
    /// Reservation Acquire Action (RACQA). [Base 2.0, 7.2, Figure 392]
    pub struct AcquireAction(u8) {
        ACQUIRE = 0 "acquire",
        PREEMPT = 1 "preempt",
        PREEMPT_AND_ABORT = 2 "preempt and abort",
    }
    /// Reservation Release Action (RRELA). [Base 2.0, 7.4, Figure 399]
    pub struct ReleaseAction(u8) {
        RELEASE = 0 "release",
        CLEAR = 1 "clear",
    }
}

/// Reads a whole report with EDS 0: the head and as many entries as REGCTL says. Fails where the bytes end before.
pub fn read_status(data: &[u8]) -> Result<(ReservationStatus, Vec<RegisteredController>), DecodeError> {
    let head = ReservationStatus::read(data)?;
    Ok((head, entries(data, ReservationStatus::LEN, head.regctl())?))
}

/// Reads a whole report with EDS 1: the head and as many entries as REGCTL says. Fails where the bytes end before.
pub fn read_extended_status(data: &[u8]) -> Result<(ReservationStatusExtended, Vec<RegisteredControllerExtended>), DecodeError> {
    let head = ReservationStatusExtended::read(data)?;
    Ok((head, entries(data, ReservationStatusExtended::LEN, head.regctl())?))
}

fn entries<T: Structure>(data: &[u8], head: usize, count: u16) -> Result<Vec<T>, DecodeError> {
    let bytes = T::LAYOUT.bytes;
    let list = data.get(head..).unwrap_or(&[]);
    if list.len() / bytes < usize::from(count) {
        let why = alloc::format!("REGCTL announces {count} controllers, room for {}", list.len() / bytes);
        return Err(DecodeError { what: T::LAYOUT.name, at: 5, why });
    }
    Ok(list.chunks_exact(bytes).take(usize::from(count)).map(T::with_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_as_many_entries_as_it_says() {
        let mut data = alloc::vec![0u8; 64 + 2 * 64];
        data[4] = 3;
        data[5] = 2;
        data[64] = 7;
        data[128] = 8;
        data[128 + 2] = 1;
        let (head, list) = read_extended_status(&data).unwrap();
        assert_eq!(head.rtype(), ReservationType::WRITE_EXCLUSIVE_REGISTRANTS);
        assert_eq!((list[0].cntlid(), list[0].holder(), list[1].cntlid(), list[1].holder()), (Cntlid(7), false, Cntlid(8), true));
        data[5] = 3;
        assert_eq!(read_extended_status(&data).unwrap_err().at, 5);
        data[6] = 0xff;
        assert!(read_status(&data).unwrap_err().why.contains("65283 controllers, room for 7"));
        assert_eq!(read_status(&data[..23]).unwrap_err().at, 23);
    }
}
