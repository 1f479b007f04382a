//! One mapping for all buffers of a run, on huge pages if available.
//!
//! A 1 MiB direct read into 4 KiB pages is 256 segments, more than many devices accept in one
//! request, so it is split; on huge pages it is one segment and costs a fraction of the CPU time.
//! That matters more than the choice of engine, so every buffer is carved from here.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use serde::{Deserialize, Serialize};
use stormlp_core::transport::Pages;

use crate::error::TransferError;

/// The size of a huge page on every architecture stormlp runs on.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The pages backing a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backing {
    /// Reserved huge pages (`vm.nr_hugepages`).
    HugeTlb,
    /// Transparent huge pages, at least nine tenths of the region by the kernel's count.
    TransparentHuge,
    /// Mostly small pages.
    SmallPages,
    /// Not reported by the kernel.
    Unknown,
}

impl Backing {
    /// The pages of all these regions: small ones if any has those.
    pub fn of_all(mut each: impl Iterator<Item = Self> + Clone) -> Self {
        let small = each.clone().find(|backing| *backing == Self::SmallPages);
        small.or(each.next()).unwrap_or(Self::Unknown)
    }

    /// The name shown in tables.
    pub fn words(self) -> &'static str {
        match self {
            Self::HugeTlb => "reserved huge pages",
            Self::TransparentHuge => "transparent huge pages",
            Self::SmallPages => "small pages",
            Self::Unknown => "pages of unknown size",
        }
    }
}

/// The mapping itself; unmapped when the last buffer is dropped.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    mapped: NonNull<u8>,
    mapped_bytes: usize,
}

// SAFETY: the mapping is plain memory without thread affinity; all access goes through
// `HostBuffer`s, which never overlap.
unsafe impl Send for Mapping {}
// SAFETY: as above; a shared `Mapping` offers no access to the memory.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `mapped` and `mapped_bytes` come from mmap, and no `HostBuffer` is left, since
        // each keeps this mapping alive. An error would mean the arguments are wrong.
        let result = unsafe { munmap(self.mapped.as_ptr().cast(), self.mapped_bytes) };
        debug_assert!(result.is_ok(), "munmap of a region failed");
    }
}

/// One 2 MiB-aligned mapping from which buffers are carved.
#[derive(Debug)]
pub struct Region {
    mapping: Arc<Mapping>,
    bytes: usize,
    used: usize,
    backing: Backing,
}

impl Region {
    /// Maps at least `bytes`, on huge pages if available, and touches every page, so that no page
    /// faults occur later.
    ///
    /// # Errors
    /// When the memory cannot be mapped.
    pub fn new(bytes: usize) -> Result<Self, TransferError> {
        Self::on(bytes, Pages::Huge)
    }

    /// The same on pages of a chosen size.
    ///
    /// # Errors
    /// When the memory cannot be mapped.
    pub fn on(bytes: usize, pages: Pages) -> Result<Self, TransferError> {
        let bytes = bytes.max(1).next_multiple_of(HUGE_PAGE_BYTES);
        let memory =
            |source: rustix::io::Errno| TransferError::Memory { bytes, source: source.into() };
        if pages == Pages::Huge
            && let Ok(mapping) = Mapping::huge_tlb(bytes)
        {
            return Ok(Self {
                mapping: Arc::new(mapping),
                bytes,
                used: 0,
                backing: Backing::HugeTlb,
            });
        }
        let mapping = Mapping::ordinary(bytes, pages).map_err(memory)?;
        let backing = match anonymous_huge_bytes(mapping.base.as_ptr() as usize) {
            Some(huge_bytes) if huge_bytes * 10 >= bytes * 9 => Backing::TransparentHuge,
            Some(_) => Backing::SmallPages,
            None => Backing::Unknown,
        };
        Ok(Self { mapping: Arc::new(mapping), bytes, used: 0, backing })
    }

    /// The pages backing the region, as reported by the kernel.
    pub fn backing(&self) -> Backing {
        self.backing
    }

    /// Size of the region in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Carves the next `len` bytes, aligned to `align` (a power of two up to 2 MiB), or `None` if
    /// the region is exhausted.
    pub fn carve(&mut self, len: usize, align: usize) -> Option<HostBuffer> {
        assert!(align.is_power_of_two() && align <= HUGE_PAGE_BYTES, "alignment {align}");
        let start = self.used.next_multiple_of(align);
        let end = start.checked_add(len)?;
        if end > self.bytes {
            return None;
        }
        self.used = end;
        // SAFETY: `start` lies inside the mapping, which holds `bytes` from `base` on.
        let start = unsafe { self.mapping.base.add(start) };
        Some(HostBuffer { start, len, _mapping: Arc::clone(&self.mapping) })
    }

    /// Frees the whole region for reuse; `false` (and no change) while buffers are still in use.
    pub fn reset(&mut self) -> bool {
        let free = Arc::strong_count(&self.mapping) == 1;
        if free {
            self.used = 0;
        }
        free
    }
}

impl Mapping {
    fn huge_tlb(bytes: usize) -> rustix::io::Result<Self> {
        // By name: the default may be 512 MiB or 1 GiB, of which the rest would be lost.
        let flags = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB | MapFlags::POPULATE;
        // SAFETY: a fresh anonymous mapping has no alias.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, PROTECTION, flags)? };
        let mapped = NonNull::new(mapped.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Self { base: mapped, mapped, mapped_bytes: bytes })
    }

    /// Maps ordinary memory, aligned so that the kernel can back it with huge pages, and requests
    /// or declines such pages.
    fn ordinary(bytes: usize, pages: Pages) -> rustix::io::Result<Self> {
        let mapped_bytes = bytes + HUGE_PAGE_BYTES;
        // SAFETY: a fresh anonymous mapping has no alias.
        let mapped = unsafe {
            mmap_anonymous(std::ptr::null_mut(), mapped_bytes, PROTECTION, MapFlags::PRIVATE)?
        };
        let mapped: NonNull<u8> = NonNull::new(mapped.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        // SAFETY: the offset is below 2 MiB, and the mapping is 2 MiB longer than `bytes`.
        let base = unsafe { mapped.add(mapped.align_offset(HUGE_PAGE_BYTES)) };
        let mapping = Self { base, mapped, mapped_bytes };
        let advice = match pages {
            Pages::Huge => Advice::LinuxHugepage,
            Pages::Small => Advice::LinuxNoHugepage,
        };
        // SAFETY: the range lies inside the mapping just made. Both calls are advice: a kernel
        // without huge pages or without populate leaves small pages or later faults.
        unsafe {
            let _ = madvise(base.as_ptr().cast(), bytes, advice);
            if madvise(base.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite).is_err() {
                base.write_bytes(0, bytes);
            }
        }
        Ok(mapping)
    }
}

const PROTECTION: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// Bytes of the mapping containing `address` that are on transparent huge pages; `None` if the
/// kernel does not report it.
fn anonymous_huge_bytes(address: usize) -> Option<usize> {
    let smaps = fs::read_to_string("/proc/self/smaps").ok()?;
    let mut inside = false;
    for line in smaps.lines() {
        if let Some((start, end)) = mapping_bounds(line) {
            inside = (start..end).contains(&address);
        } else if inside && let Some(rest) = line.strip_prefix("AnonHugePages:") {
            let kib: usize = rest.trim().trim_end_matches(" kB").trim().parse().ok()?;
            return Some(kib << 10);
        }
    }
    None
}

/// The bounds in the header line of a mapping in smaps, `7f00-7fff rw-p …`.
fn mapping_bounds(line: &str) -> Option<(usize, usize)> {
    let (start, rest) = line.split_once('-')?;
    let end = rest.split(' ').next()?;
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

/// An exclusively owned piece of a [`Region`].
#[derive(Debug)]
pub struct HostBuffer {
    start: NonNull<u8>,
    len: usize,
    _mapping: Arc<Mapping>,
}

// SAFETY: a buffer is the only way to its bytes, and plain memory has no thread affinity.
unsafe impl Send for HostBuffer {}
// SAFETY: sharing a buffer shares reads of its bytes; writing needs `&mut`.
unsafe impl Sync for HostBuffer {}

/// Keeps the memory of a buffer mapped without giving access to it.
#[derive(Debug)]
pub(crate) struct MappingShare {
    _mapping: Arc<Mapping>,
}

impl HostBuffer {
    /// The address of the first byte, for the kernel and for libraries.
    pub(crate) fn as_raw(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// A share of the mapping, for code that refers to the memory by address.
    pub(crate) fn share(&self) -> MappingShare {
        MappingShare { _mapping: Arc::clone(&self._mapping) }
    }

    /// Splits the buffer in two, the first of `len` bytes.
    ///
    /// # Panics
    /// When `len` is beyond the end.
    pub fn split_at(self, len: usize) -> (Self, Self) {
        assert!(len <= self.len, "split beyond the end of a buffer");
        // SAFETY: `len` is at most the length, so the address stays inside or one past the end.
        let start = unsafe { self.start.add(len) };
        let rest = Self { start, len: self.len - len, _mapping: Arc::clone(&self._mapping) };
        (Self { start: self.start, len, _mapping: self._mapping }, rest)
    }
}

impl Deref for HostBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are mapped, touched, and reachable through this buffer alone.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for HostBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_do_not_overlap() {
        let mut region = Region::new(3 << 20).unwrap();
        assert_eq!(region.bytes(), 4 << 20);
        let mut first = region.carve(1000, 4096).unwrap();
        let mut second = region.carve(1000, 4096).unwrap();
        first.fill(1);
        second.fill(2);
        assert!(first.iter().all(|byte| *byte == 1));
        assert_eq!(second.as_raw() as usize % 4096, 0);
        assert!(region.carve(4 << 20, 4096).is_none());
    }

    #[test]
    fn a_region_is_free_again_only_when_every_buffer_is_back() {
        let mut region = Region::new(1).unwrap();
        let buffer = region.carve(HUGE_PAGE_BYTES, HUGE_PAGE_BYTES).unwrap();
        assert!(!region.reset());
        drop(buffer);
        assert!(region.reset());
        assert!(region.carve(HUGE_PAGE_BYTES, 1).is_some());
    }

    #[test]
    fn small_pages_are_small_whatever_the_kernel_prefers() {
        let region = Region::on(8 << 20, Pages::Small).unwrap();
        assert!(matches!(region.backing(), Backing::SmallPages | Backing::Unknown));
    }

    #[test]
    fn a_split_buffer_keeps_its_bytes() {
        let mut region = Region::new(1).unwrap();
        let mut buffer = region.carve(8, 8).unwrap();
        buffer.copy_from_slice(b"abcdefgh");
        drop(region);
        let (left, right) = buffer.split_at(3);
        assert_eq!((&left[..], &right[..]), (&b"abc"[..], &b"defgh"[..]));
    }
}
