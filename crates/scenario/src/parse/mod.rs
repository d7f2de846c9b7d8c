//! From text to [`crate::ast`]: `lines` cuts a file into lines with indentation, `atom` reads what stands in one line (nom),
//! `stmt` statements, `head` the head of a script and the file as a whole.

mod atom;
mod head;
mod lines;
mod rdma;
mod stmt;

use crate::ast::{Place, Script};
use crate::error::ScriptError;

/// Reads the scripts of a file. `file` is its name, for errors.
pub fn parse(file: &str, text: &str) -> Result<Vec<Script>, ScriptError> {
    let fault = |place: Place, what| ScriptError {
        file: file.to_owned(),
        place,
        line: text.lines().nth(place.line.saturating_sub(1)).unwrap_or("").to_owned(),
        what,
    };
    let scripts = head::file(text).map_err(|e| fault(e.place, e.what))?;
    for s in &scripts {
        if let Script::Fault(f) = s
            && let Some((place, what)) = crate::fault::unknown_field(f)
        {
            return Err(fault(place, what));
        }
    }
    Ok(scripts)
}

/// A fault found while reading, before the file's name is known.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) place: Place,
    pub(crate) what: String,
}
