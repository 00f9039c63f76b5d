use std::collections::{BTreeMap, BTreeSet};

/// Collects into ordered maps and sets, item by item.
///
/// `collect` sorts all items first. The code of a sort is five kilobytes for each type of items,
/// and what is collected here is small.
pub(crate) trait Ordered: Iterator + Sized {
    /// Returns a map of the pairs. Of those with the same key the last one remains.
    fn into_map<K: Ord, V>(self) -> BTreeMap<K, V>
    where
        Self: Iterator<Item = (K, V)>,
    {
        let mut map = BTreeMap::new();
        map.extend(self);
        map
    }

    /// Returns a set of the items.
    fn into_set(self) -> BTreeSet<Self::Item>
    where
        Self::Item: Ord,
    {
        let mut set = BTreeSet::new();
        set.extend(self);
        set
    }
}

impl<I: Iterator> Ordered for I {}
