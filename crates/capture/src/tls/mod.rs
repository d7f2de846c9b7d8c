//! TLS 1.3 below NVMe/TCP, as a bystander sees it. [RFC 8446; NVMe/TCP 1.0, 3.6.1]
//!
//! [`Notice`] is what TLS says of itself: what was offered and chosen, alerts, new keys.

mod notice;

pub use notice::{Alert, Group, Notice, Suite, Version};
