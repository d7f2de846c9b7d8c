//! Values that may be others in the other capture, as long as each stands for the same one everywhere.

use std::collections::BTreeMap;

/// What stands for what in one domain, both ways.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    to_b: BTreeMap<Vec<u8>, Vec<u8>>,
    to_a: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Names {
    /// Whether `a` may be called `b`: the first sight binds both, later ones have to agree.
    pub fn agree(&mut self, a: &[u8], b: &[u8]) -> bool {
        match (self.to_b.get(a), self.to_a.get(b)) {
            (None, None) => {
                self.to_b.insert(a.to_vec(), b.to_vec());
                self.to_a.insert(b.to_vec(), a.to_vec());
                true
            }
            (Some(known), _) => known == b,
            (None, Some(_)) => false,
        }
    }

    /// From now on `a` is called `b`, whatever either was before.
    pub fn define(&mut self, a: &[u8], b: &[u8]) {
        self.forget(a, b);
        self.agree(a, b);
    }

    /// Both are free again.
    pub fn forget(&mut self, a: &[u8], b: &[u8]) {
        if let Some(old) = self.to_b.remove(a) {
            self.to_a.remove(&old);
        }
        if let Some(old) = self.to_a.remove(b) {
            self.to_b.remove(&old);
        }
    }

    /// What `a` is called.
    pub fn called(&self, a: &[u8]) -> Option<&[u8]> {
        self.to_b.get(a).map(Vec::as_slice)
    }

    /// What is called `b`.
    pub fn means(&self, b: &[u8]) -> Option<&[u8]> {
        self.to_a.get(b).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bound_on_first_sight_and_one_to_one() {
        let mut names = Names::default();
        assert!(names.agree(b"1", b"7") && names.agree(b"2", b"8") && names.agree(b"1", b"7"));
        assert!(!names.agree(b"1", b"8") && !names.agree(b"3", b"7") && !names.agree(b"2", b"9"));
        names.define(b"1", b"8");
        assert_eq!((names.called(b"1"), names.means(b"8"), names.called(b"2")), (Some(&b"8"[..]), Some(&b"1"[..]), None));
        assert!(names.agree(b"2", b"7") && !names.agree(b"3", b"8"));
    }
}
