//! The contents of a block device, identified by the magic numbers that the kernel, its tools and
//! other systems put at fixed offsets. The names are those of `blkid`.
//!
//! A missed signature costs someone's data, a false one only a flag. So two-byte signatures, which
//! may occur by chance, count only if more of the surrounding structure matches.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// How much of the beginning is read: ZFS's first two labels, with VMFS and the second superblock
/// of bcachefs beyond them.
const HEAD_BYTES: u64 = (2 << 20) + (64 << 10);
/// How much of the end is read: ZFS's last two labels, and the last superblock of bcachefs, at any
/// alignment.
const TAIL_BYTES: u64 = 4 << 20;

/// The magic of bcachefs, and that of bcache, which its first versions used too.
const BCACHEFS: &[u8] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
const BCACHE: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";

/// A magic number and its offset.
struct Magic {
    name: &'static str,
    offset: u64,
    bytes: &'static [u8],
}

/// Shorthand for a row.
const fn magic(name: &'static str, offset: u64, bytes: &'static [u8]) -> Magic {
    Magic { name, offset, bytes }
}

/// Those long enough not to occur by chance.
const MAGICS: &[Magic] = &[
    magic("gpt", 512, b"EFI PART"),
    magic("gpt", 4096, b"EFI PART"),
    magic("xfs", 0, b"XFSB"),
    magic("btrfs", 0x1_0040, b"_BHRfS_M"),
    magic("f2fs", 1024, b"\x10\x20\xf5\xf2"),
    magic("ntfs", 3, b"NTFS    "),
    magic("exfat", 3, b"EXFAT   "),
    magic("BitLocker", 3, b"-FVE-FS-"),
    magic("vfat", 54, b"FAT12   "),
    magic("vfat", 54, b"FAT16   "),
    magic("vfat", 82, b"FAT32   "),
    magic("iso9660", 0x8001, b"CD001"),
    magic("udf", 0x8001, b"BEA01"),
    magic("udf", 0x8001, b"NSR0"),
    magic("squashfs", 0, b"hsqs"),
    magic("erofs", 1024, b"\xe2\xe1\xf5\xe0"),
    magic("jfs", 0x8000, b"JFS1"),
    magic("reiserfs", 0x1_0034, b"ReIsEr"),
    magic("reiserfs", 0x2034, b"ReIsEr"),
    magic("reiser4", 0x1_0000, b"ReIsEr4"),
    magic("nilfs2", 0x400, b"\x02\x00\x00\x00\x00\x00\x34\x34"),
    magic("hfsplus", 1024, b"H+\x00\x04"),
    magic("hfsplus", 1024, b"HX\x00\x05"),
    magic("apfs", 32, b"NXSB"),
    magic("gfs2", 0x1_0000, b"\x01\x16\x19\x70"),
    magic("ocfs2", 0x400, b"OCFSV2"),
    magic("ocfs2", 0x800, b"OCFSV2"),
    magic("ocfs2", 0x1000, b"OCFSV2"),
    magic("ocfs2", 0x2000, b"OCFSV2"),
    magic("VMFS_volume_member", 0x10_0000, b"\x0d\xd0\x01\xc0"),
    magic("crypto_LUKS", 0, b"LUKS\xba\xbe"),
    magic("crypto_LUKS", 0x4000, b"SKUL\xba\xbe"),
    magic("LVM2_member", 0, b"LABELONE"),
    magic("LVM2_member", 512, b"LABELONE"),
    magic("LVM2_member", 1024, b"LABELONE"),
    magic("LVM2_member", 1536, b"LABELONE"),
    magic("linux_raid_member", 0, b"\xfc\x4e\x2b\xa9"),
    magic("linux_raid_member", 4096, b"\xfc\x4e\x2b\xa9"),
    magic("bcache", 0x1018, BCACHE),
    magic("ceph_bluestore", 0, b"bluestore block device"),
    magic("oracleasm", 32, b"ORCLDISK"),
    magic("vdo", 0, b"dmvdo001"),
    magic("stratis", 0x210, b"!Stra0tis\x86\xff\x02^\x41rh"),
    magic("cramfs", 0, b"\x45\x3d\xcd\x28"),
    magic("ubi", 0, b"UBI#"),
];

/// Magic numbers at an offset from the end.
const MAGICS_AT_END: &[Magic] = &[
    magic("gpt", 512, b"EFI PART"),
    magic("gpt", 4096, b"EFI PART"),
    magic("ddf_raid_member", 512, b"\xde\x11\xde\x11"),
    magic("isw_raid_member", 1024, b"Intel Raid ISM Cfg Sig. "),
];

/// Page sizes with which a machine may have written its swap signature.
const SWAP_PAGES: [u64; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

/// The beginning and the end of a device or of part of it.
#[derive(Debug)]
struct DeviceEnds {
    size: u64,
    head: Vec<u8>,
    tail: Vec<u8>,
    /// Where the tail begins.
    tail_start: u64,
}

/// The signatures in the `size` bytes of `device` starting at `start`, without duplicates.
///
/// # Errors
/// When they cannot be read.
pub(crate) fn signatures(device: &File, start: u64, size: u64) -> io::Result<Vec<&'static str>> {
    let head = read(device, start, size.min(HEAD_BYTES))?;
    let tail_start = size - size.min(TAIL_BYTES);
    let tail = read(device, start + tail_start, size - tail_start)?;
    let ends = DeviceEnds { size, head, tail, tail_start };
    Ok(ends.signatures())
}

/// Reads `len` bytes, or as many as there are.
fn read(device: &File, offset: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match device.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

impl DeviceEnds {
    fn signatures(&self) -> Vec<&'static str> {
        let mut found: Vec<&'static str> = Vec::new();
        let plain = MAGICS.iter().filter(|m| self.has(m.offset, m.bytes));
        let at_end = (MAGICS_AT_END.iter())
            .filter(|m| self.size.checked_sub(m.offset).is_some_and(|at| self.has(at, m.bytes)));
        let looked_into = [self.ext(), self.swap(), self.raid(), self.zfs(), self.bcachefs()];
        for name in
            (plain.chain(at_end).map(|magic| magic.name)).chain(looked_into.into_iter().flatten())
        {
            if !found.contains(&name) {
                found.push(name);
            }
        }
        found.extend(self.dos(&found));
        found
    }

    /// Bytes at an offset, if they are near either end.
    fn at(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let within = |bytes: &[u8], from: u64| -> Option<std::ops::Range<usize>> {
            let start = usize::try_from(offset.checked_sub(from)?).ok()?;
            let end = start.checked_add(len)?;
            (end <= bytes.len()).then_some(start..end)
        };
        if let Some(range) = within(&self.head, 0) {
            return Some(&self.head[range]);
        }
        let range = within(&self.tail, self.tail_start)?;
        Some(&self.tail[range])
    }

    fn has(&self, offset: u64, magic: &[u8]) -> bool {
        self.at(offset, magic.len()) == Some(magic)
    }

    fn u16(&self, offset: u64) -> Option<u16> {
        Some(u16::from_le_bytes(self.at(offset, 2)?.try_into().ok()?))
    }

    fn u32(&self, offset: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.at(offset, 4)?.try_into().ok()?))
    }

    /// ext2, ext3 and ext4 share a two-byte magic number; their features distinguish them.
    fn ext(&self) -> Option<&'static str> {
        let field = |offset: u64| self.u32(1024 + offset);
        let is_ext = self.u16(1024 + 56)? == 0xef53 && field(24)? <= 6 && field(76)? <= 1;
        let (compatible, incompatible, read_only) = (field(92)?, field(96)?, field(100)?);
        // Features known to ext3: directory types, recovery, meta block groups; sparse
        // superblocks, large files, sorted directories.
        let newer = incompatible & !0x16 != 0 || read_only & !0x7 != 0;
        is_ext.then_some(match (newer, compatible & 0x4 != 0) {
            (true, _) => "ext4",
            (false, true) => "ext3",
            (false, false) => "ext2",
        })
    }

    /// Swap space, or a hibernation image: at the end of the first page.
    fn swap(&self) -> Option<&'static str> {
        let marks: [&[u8; 10]; 2] = [b"SWAPSPACE2", b"SWAP-SPACE"];
        let asleep: [&[u8]; 3] = [b"S1SUSPEND", b"S2SUSPEND", b"ULSUSPEND"];
        SWAP_PAGES.iter().find_map(|page| {
            let has = |mark: &[u8]| self.has(page - 10, mark);
            match () {
                () if marks.iter().any(|mark| has(*mark)) => Some("swap"),
                () if asleep.iter().any(|mark| has(mark)) => Some("swsuspend"),
                () => None,
            }
        })
    }

    /// Members of md arrays whose superblock is near the end: versions 1.0 and 0.90.
    fn raid(&self) -> Option<&'static str> {
        let version_1 = (self.size / 512).checked_sub(16)? / 8 * 8 * 512;
        let version_0 = (self.size / 65_536 * 65_536).checked_sub(65_536)?;
        let magic = 0xa92b_4efc;
        let has = |offset| self.u32(offset) == Some(magic);
        (has(version_1) || has(version_0)).then_some("linux_raid_member")
    }

    /// A uberblock in one of the four labels of a member of a ZFS pool.
    fn zfs(&self) -> Option<&'static str> {
        const LABEL: u64 = 256 << 10;
        let whole = self.size / LABEL * LABEL;
        let labels = [Some(0), Some(LABEL), whole.checked_sub(2 * LABEL), whole.checked_sub(LABEL)];
        let uberblocks = (labels.into_iter().flatten())
            .flat_map(|label| (0..128).map(move |index| label + (128 << 10) + index * 1024));
        let magic = 0x00ba_b10c_u64;
        let ours = [magic.to_le_bytes(), magic.to_be_bytes()];
        let mut uberblocks = uberblocks.filter_map(|offset| self.at(offset, 8));
        uberblocks.any(|bytes| ours.iter().any(|magic| magic == bytes)).then_some("zfs_member")
    }

    /// bcachefs has a superblock on sector 8, copies after it and at the end, at a distance given
    /// by their size, and a list of them on sector 7: any of these is a signature.
    fn bcachefs(&self) -> Option<&'static str> {
        const SECTOR: u64 = 512;
        let listed = [BCACHEFS, BCACHE].iter().any(|mark| self.has(7 * SECTOR, mark));
        // The first is bcache's own if it has bcache's magic.
        let copies = |from: u64, bytes: &[u8]| (from..from + bytes.len() as u64).step_by(512);
        let mut sectors = copies(0, &self.head).chain(copies(self.tail_start, &self.tail));
        let superblock = |sector: u64| {
            let has = |mark| self.has(sector + 0x18, mark);
            has(BCACHEFS) || (sector != 8 * SECTOR && has(BCACHE))
        };
        (listed || sectors.any(superblock)).then_some("bcachefs")
    }

    /// An MBR partition table. GPT has one for protection, and the first sector of FAT and NTFS
    /// ends the same way: these have already been identified.
    fn dos(&self, found: &[&str]) -> Option<&'static str> {
        let other = ["gpt", "vfat", "ntfs", "exfat", "BitLocker"];
        if !self.has(510, b"\x55\xaa") || found.iter().any(|name| other.contains(name)) {
            return None;
        }
        let entries = self.at(446, 64)?;
        let plausible = |entry: &[u8]| matches!(entry[0], 0 | 0x80);
        entries.chunks(16).all(plausible).then_some("dos")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u64 = 16 << 20;

    /// The signatures on a zeroed device with these bytes at these offsets.
    fn of(marks: &[(u64, &[u8])]) -> Vec<&'static str> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(SIZE).unwrap();
        for (offset, bytes) in marks {
            file.write_all_at(bytes, *offset).unwrap();
        }
        signatures(&file, 0, SIZE).unwrap()
    }

    #[test]
    fn an_empty_device_carries_nothing_and_every_magic_number_is_found_alone() {
        assert!(of(&[]).is_empty());
        for magic in MAGICS {
            assert_eq!(of(&[(magic.offset, magic.bytes)]), [magic.name]);
        }
        for magic in MAGICS_AT_END {
            assert_eq!(of(&[(SIZE - magic.offset, magic.bytes)]), [magic.name]);
        }
    }

    #[test]
    fn the_ext_family_is_distinguished_and_two_bytes_are_not_a_file_system() {
        let ext = |compatible: u8, incompatible: u8| {
            of(&[
                (1024 + 56, b"\x53\xef"),
                (1024 + 92, &[compatible]),
                (1024 + 96, &[incompatible]),
            ])
        };
        assert_eq!(ext(0, 0x2), ["ext2"]);
        assert_eq!(ext(0x4, 0x2), ["ext3"]);
        assert_eq!(ext(0x4, 0x42), ["ext4"]);
        assert!(of(&[(1024 + 56, b"\x53\xef"), (1024 + 24, b"\xff")]).is_empty());
    }

    #[test]
    fn signatures_near_the_end_or_between_are_found() {
        assert_eq!(of(&[(4086, b"SWAPSPACE2")]), ["swap"]);
        assert_eq!(of(&[(65_526, b"S1SUSPEND")]), ["swsuspend"]);
        let raid = b"\xfc\x4e\x2b\xa9";
        assert_eq!(of(&[(SIZE - 8192, raid)]), ["linux_raid_member"]);
        assert_eq!(of(&[(SIZE - 65_536, raid)]), ["linux_raid_member"]);
        let uberblock = 0x00ba_b10c_u64.to_le_bytes();
        for label in [0, 256 << 10, SIZE - (512 << 10), SIZE - (256 << 10)] {
            let place = label + (128 << 10) + 77 * 1024;
            assert_eq!(of(&[(place, &uberblock)]), ["zfs_member"], "{label}");
        }
    }

    #[test]
    fn every_bcachefs_superblock_location_is_checked() {
        // Sector 8, the copy after it for superblocks of 32 KiB, 64 KiB and 1 MiB, and the one at
        // the end, at the last multiple of a bucket.
        let places = [8, 88, 136, 2056].map(|sector| sector * 512);
        let last = [SIZE - (1 << 20), SIZE - (2 << 20)];
        for place in places.into_iter().chain(last) {
            assert_eq!(of(&[(place + 0x18, BCACHEFS)]), ["bcachefs"], "{place}");
        }
        assert_eq!(of(&[(7 * 512, BCACHEFS)]), ["bcachefs"]);
        // As written by its first versions.
        assert_eq!(of(&[(7 * 512, BCACHE)]), ["bcachefs"]);
        assert_eq!(of(&[(136 * 512 + 0x18, BCACHE)]), ["bcachefs"]);
        assert_eq!(of(&[(8 * 512 + 0x18, BCACHE)]), ["bcache"]);
    }

    #[test]
    fn a_dos_partition_table_is_recognised_unless_the_sector_is_something_else() {
        assert_eq!(of(&[(510, b"\x55\xaa")]), ["dos"]);
        assert_eq!(of(&[(446, b"\x80"), (510, b"\x55\xaa")]), ["dos"]);
        assert!(of(&[(446, b"\x13"), (510, b"\x55\xaa")]).is_empty());
        assert_eq!(of(&[(510, b"\x55\xaa"), (512, b"EFI PART")]), ["gpt"]);
        assert_eq!(of(&[(510, b"\x55\xaa"), (82, b"FAT32   ")]), ["vfat"]);
    }

    #[test]
    fn a_partition_is_examined_by_its_own_offsets() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(SIZE).unwrap();
        file.write_all_at(b"XFSB", 1 << 20).unwrap();
        assert!(signatures(&file, 0, SIZE).unwrap().is_empty());
        assert_eq!(signatures(&file, 1 << 20, 1 << 20).unwrap(), ["xfs"]);
    }

    proptest! {
        #[test]
        fn a_device_of_any_size_and_content_is_examined(
            bytes in prop::collection::vec(any::<u8>(), 0..9000),
            size in 0u64..20_000,
        ) {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(&bytes, 0).unwrap();
            let _ = signatures(&file, 0, size).unwrap();
        }
    }
}
