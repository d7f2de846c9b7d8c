//! Reservation notification log page (80h): one event a read, oldest first. [Base 2.0, 5.16.1.24]

use crate::open::Nsid;

layout! {
    /// Reservation notification log page, 64 bytes. All zero where nothing is queued. [Base 2.0, 5.16.1.24, Figure 266]
    pub struct ReservationNotification[64] {
        lpc: u64 @ 0 "Log Page Count" = "nvme.cmd.get_logpage.reserv_notif.lpc",
        kind: NotificationType @ 8 "Reservation Notification Log Page Type" = "nvme.cmd.get_logpage.reserv_notif.lpt",
        nalp: u8 @ 9 "Number of Available Log Pages behind this one, 255 for more" = "nvme.cmd.get_logpage.reserv_notif.nalp",
        nsid: Nsid @ 12 "Namespace ID (NSID)" = "nvme.cmd.get_logpage.reserv_notif.nsid",
    }
}

open_enum! {
    /// Reservation Notification Log Page Type. [Base 2.0, 5.16.1.24, Figure 266]
    pub struct NotificationType(u8) {
        EMPTY = 0 "empty",
        REGISTRATION_PREEMPTED = 1 "registration preempted",
        RESERVATION_RELEASED = 2 "reservation released",
        RESERVATION_PREEMPTED = 3 "reservation preempted",
    }
}
