//! Printing for commands that print and end.

use std::io::Write;
use std::process::ExitCode;

use nvmf_conformance::ExitStatus;
use nvmf_conformance::report::printable;

/// Prints to standard output. A closed pipe ends the command quietly, as with any program in a pipeline.
pub fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    ExitStatus::Success.into()
}

/// Says on standard error why nothing came of it.
pub fn refuse(status: ExitStatus, message: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr().lock(), "error: {}", printable(message.trim_end()));
    status.into()
}

/// Words in lines of at most `width` columns, each begun with `indent`.
pub fn wrapped(text: &str, indent: &str, width: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && indent.len() + used + 1 + length > width {
            out.push('\n');
            used = 0;
        }
        if used == 0 {
            out.push_str(indent);
        } else {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    if used > 0 {
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_keep_to_the_width() {
        assert_eq!(wrapped("aa bb cc", "  ", 7), "  aa bb\n  cc\n");
        assert_eq!(wrapped(" ", "  ", 7), "");
    }
}
