//! A map that keeps its memory: what comes and goes with every command must not allocate.

/// Keys in order beside the slots of their values, found by bisection: a key may be anything, and no choice of keys makes a peer's
/// commands dearer than another's. It is as long as its user lets it become, which is to be bounded (design invariant I5).
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    /// Keys in order, each with its slot.
    index: Vec<(K, usize)>,
    slots: Vec<Option<V>>,
    /// Slots without a value.
    free: Vec<usize>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { index: Vec::new(), slots: Vec::new(), free: Vec::new() }
    }
}

impl<K: Copy + Ord, V> Table<K, V> {
    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn contains(&self, key: K) -> bool {
        self.place(key).is_ok()
    }

    pub fn get(&self, key: K) -> Option<&V> {
        let at = self.place(key).ok()?;
        let (_, slot) = self.index.get(at)?;
        self.slots.get(*slot)?.as_ref()
    }

    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let at = self.place(key).ok()?;
        let (_, slot) = self.index.get(at)?;
        self.slots.get_mut(*slot)?.as_mut()
    }

    /// Puts a value in place of one that may be there.
    pub fn insert(&mut self, key: K, value: V) {
        match self.place(key) {
            Ok(at) => {
                if let Some(slot) = self.index.get(at).and_then(|(_, slot)| self.slots.get_mut(*slot)) {
                    *slot = Some(value);
                }
            }
            Err(at) => {
                let slot = self.free.pop().unwrap_or(self.slots.len());
                match self.slots.get_mut(slot) {
                    Some(s) => *s = Some(value),
                    None => self.slots.push(Some(value)),
                }
                self.index.insert(at, (key, slot));
            }
        }
    }

    pub fn remove(&mut self, key: K) -> Option<V> {
        let (_, slot) = self.index.remove(self.place(key).ok()?);
        self.free.push(slot);
        self.slots.get_mut(slot)?.take()
    }

    /// In the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.index.iter().filter_map(|(key, slot)| Some((*key, self.slots.get(*slot)?.as_ref()?)))
    }

    /// In no order that means anything.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.slots.iter_mut().flatten()
    }

    /// Gives memory back where nothing is held.
    pub fn rest(&mut self) {
        if self.index.is_empty() {
            *self = Self::default();
        }
    }

    fn place(&self, key: K) -> Result<usize, usize> {
        self.index.binary_search_by_key(&key, |(k, _)| *k)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_an_ordered_map(acts in vec((any::<bool>(), 0u16..40, any::<u32>()), 0..200)) {
            let (mut table, mut model) = (Table::default(), BTreeMap::new());
            for (put, key, value) in acts {
                if put {
                    table.insert(key, value);
                    model.insert(key, value);
                } else {
                    prop_assert_eq!(table.remove(key), model.remove(&key));
                }
                prop_assert_eq!(table.get(key), model.get(&key));
                prop_assert_eq!(table.contains(key), model.contains_key(&key));
                prop_assert_eq!(table.len(), model.len());
                prop_assert!(table.iter().eq(model.iter().map(|(k, v)| (*k, v))));
                prop_assert_eq!(table.values_mut().count(), model.len());
                prop_assert!(table.slots.len() <= 40);
            }
        }
    }
}
