//! Judging the guest's kernel log: a suite that makes the kernel complain about itself has found something.
//!
//! Messages of the target about its peer (`nvmet: ctrl 1 keep-alive timer expired`) are its daily work and no complaint.

/// What the kernel says when something in it went wrong.
const COMPLAINTS: &[&str] = &[
    "Oops",
    "BUG:",
    "WARNING:",
    "Kernel panic",
    "general protection fault",
    "Unable to handle kernel",
    "refcount_t:",
    "list_add corruption",
    "list_del corruption",
    "UBSAN:",
    "blocked for more than",
];

/// Signs of a slow machine, not of a wrong kernel: software emulation on busy processors stalls a guest for seconds.
const SLOWNESS: &[&str] = &["soft lockup", "rcu_sched", "rcu_preempt", "hrtimer:"];

/// A record's text without its head (`6,123,4567,-;`), one line a record; `/dev/kmsg` gives them so.
pub fn readable(kmsg: &str) -> String {
    let mut text = String::new();
    for line in kmsg.lines() {
        // a line that begins with a blank continues the record with its properties
        if line.starts_with(' ') {
            continue;
        }
        let (head, said) = line.split_once(';').unwrap_or(("", line));
        let micros: u64 = head.split(',').nth(2).and_then(|n| n.parse().ok()).unwrap_or(0);
        let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
        text.push_str(&format!("[{seconds:5}.{rest:06}] {}\n", said.trim_end()));
    }
    text
}

/// The lines in which the kernel complains about itself.
pub fn complaints(log: &str) -> Vec<&str> {
    log.lines()
        .filter(|line| COMPLAINTS.iter().any(|sign| line.contains(sign)))
        .filter(|line| !SLOWNESS.iter().any(|sign| line.contains(sign)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_become_lines_and_complaints_are_found() {
        let kmsg = "6,339,5140900,-;nvmet: adding nsid 1\n SUBSYSTEM=x\n4,340,6000001,-;WARNING: CPU: 0 PID: 1 at x.c:1\n\
                    0,341,6000002,-;watchdog: BUG: soft lockup - CPU#0 stuck for 22s!\n";
        let text = readable(kmsg);
        assert_eq!(text.lines().next(), Some("[    5.140900] nvmet: adding nsid 1"));
        assert_eq!(complaints(&text), ["[    6.000001] WARNING: CPU: 0 PID: 1 at x.c:1"]);
    }
}
