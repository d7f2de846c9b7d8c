//! Scripts: the language ([`ast`], [`parse`]), and what plays them against a peer ([`player`]) or bends traffic ([`fault`]).
//!
//! The grammar is in `docs/scenarios.md`. A script sends anything, valid or not; nothing here judges by itself what the protocol
//! asks: that is written in the scripts, with the requirement ids they cite.

pub mod ast;
mod commands;
pub mod error;
pub mod fault;
mod fields;
pub mod golden;
pub mod parse;
pub mod pattern;
pub mod player;
mod roce;
pub mod transport;
pub mod value;

pub use error::ScriptError;
