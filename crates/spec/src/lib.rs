//! What the NVMe-oF specifications ask for, as constants: requirement ids with their section, level and answer, the
//! revisions they belong to, and [`Violation`], the way to say that a peer broke one.
//!
//! The table is generated from `docs/requirements/*.toml` by `cargo xtask reqs --bless`; edit those files, never
//! [`ids`]. The wording is a paraphrase: the specifications remain the judge. The crate knows no byte layout, no state
//! and no verdict; it depends on nothing.
//!
//! Read [`Requirement`] first. Code cites a rule by its constant:
//!
//! ```
//! use nvmf_spec::{Answer, Side, Violation, req};
//!
//! let breach = Violation::new(req::TCP_ICREQ_01, Side::Host, "CapsuleCmd first")
//!     .answered(Answer::TermReq { fes: 2, fei: 0 });
//! assert_eq!(breach.requirement.section, "3.1");
//! assert_eq!(nvmf_spec::requirement("TCP-ICREQ-01"), Some(req::TCP_ICREQ_01));
//! ```

#![no_std]
#![deny(missing_docs)]

extern crate alloc;

#[rustfmt::skip] // generated
pub mod ids;
mod requirement;
mod revision;
mod violation;

/// The name by which code cites: `req::TCP_H2C_03`.
pub use ids as req;
pub use requirement::{Judge, Level, Requirement, Role, Silence, all, requirement, silence, silences};
pub use revision::{ParseRevisionError, Revision};
pub use violation::{Answer, Side, Violation};
