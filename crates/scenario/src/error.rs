//! A script that cannot be read: file, line, column, and what was expected.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::ast::Place;

/// A fault in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// Name of the file.
    pub file: String,
    /// Where in it.
    pub place: Place,
    /// The line itself.
    pub line: String,
    /// What is wrong, and what was expected.
    pub what: String,
}

impl std::fmt::Display for ScriptError {
    /// One line, then the place shown in its line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = self.line.char_indices().nth(self.place.column.saturating_sub(1)).map_or(self.line.len(), |(i, _)| i);
        let end = self.line[at..].find(char::is_whitespace).map_or(self.line.len(), |n| at + n.max(1));
        let source = format!("{}\n", self.line);
        let snippet = Snippet::source(&source)
            .path(&self.file)
            .line_start(self.place.line)
            .annotation(AnnotationKind::Primary.span(at..end.max(at)));
        let report = [Level::ERROR.primary_title(&self.what).element(snippet)];
        f.write_str(&Renderer::plain().render(&report))
    }
}

impl std::error::Error for ScriptError {}
