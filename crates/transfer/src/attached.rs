//! The files and objects attached to an engine or a path; free numbers are reused.

use crate::transfer::FileId;

/// The attached files, by number.
#[derive(Debug)]
pub(crate) struct Attached<T>(Vec<Option<T>>);

impl<T> Default for Attached<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Attached<T> {
    /// A table that does not grow up to this number.
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    pub(crate) fn insert(&mut self, one: T) -> FileId {
        let free = self.0.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        });
        self.0[index] = Some(one);
        FileId(index as u32)
    }

    pub(crate) fn remove(&mut self, id: FileId) -> Option<T> {
        self.0.get_mut(id.0 as usize)?.take()
    }

    #[inline]
    pub(crate) fn get(&self, id: FileId) -> Option<&T> {
        self.0.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }
}
