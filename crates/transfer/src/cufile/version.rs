//! The library's version, which determines its features and the layout of its statistics.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// Version of libcufile as returned by `cuFileGetVersion`: 1000 × major + 10 × minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LibraryVersion(i32);

impl LibraryVersion {
    /// The oldest supported version: CUDA 12.3's, the first to report its version, to accept host
    /// memory and to have the stream and batch calls in their present form.
    pub const OLDEST: Self = Self(1080);
    /// From this version the statistics have fields for vectored calls, which shifts the rest.
    const VECTORED_STATISTICS: Self = Self(1190);
    /// The first version with `gds_fallback_io`, a second permission to fall back.
    pub(super) const FALLBACK_IO: Self = Self(1190);

    /// The first version of CUDA 13.
    const CUDA_13: Self = Self(1150);
    /// The first version with PCI peer-to-peer DMA.
    const P2PDMA: Self = Self(1130);
    /// The first version that counts transfers by route.
    const ROUTE_STATISTICS: Self = Self(1150);
    /// The first version with a direct route for batch entries larger than its per-buffer cache.
    const LARGE_ENTRIES: Self = Self(1180);

    /// The version for the number returned by `cuFileGetVersion`.
    pub const fn from_number(number: i32) -> Self {
        Self(number)
    }

    /// The number, 1160 for 1.16.
    pub fn number(self) -> i32 {
        self.0
    }

    /// The major version of CUDA that it is released with.
    pub(crate) fn cuda_major(self) -> u32 {
        if self >= Self::CUDA_13 { 13 } else { 12 }
    }

    /// Whether it can use PCI peer-to-peer DMA.
    pub(crate) fn has_p2pdma(self) -> bool {
        self >= Self::P2PDMA
    }

    /// Whether it counts transfers by route.
    pub(crate) fn counts_routes(self) -> bool {
        self >= Self::ROUTE_STATISTICS
    }

    /// Whether batch entries larger than its per-buffer cache can use a direct route.
    pub(crate) fn has_direct_large_entries(self) -> bool {
        self >= Self::LARGE_ENTRIES
    }

    /// Whether the statistics contain the fields for vectored calls.
    pub(crate) fn counts_vectored(self) -> bool {
        self >= Self::VECTORED_STATISTICS
    }
}

impl FromStr for LibraryVersion {
    type Err = ParseIntError;

    /// Parses the format of `Display`, `1.16`.
    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
        Ok(Self(1000 * major.parse::<i32>()? + 10 * minor.parse::<i32>()?))
    }
}

impl fmt::Display for LibraryVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_versions() {
        assert_eq!(LibraryVersion::from_number(1160).to_string(), "1.16");
        assert_eq!(LibraryVersion::from_number(1080).to_string(), "1.8");
        assert_eq!("1.8".parse(), Ok(LibraryVersion::from_number(1080)));
        assert!("new".parse::<LibraryVersion>().is_err());
        assert!(LibraryVersion::from_number(1190).counts_vectored());
        assert!(!LibraryVersion::from_number(1180).counts_vectored());
    }
}
