//! Memory, huge pages and the limits of this process.

use rustix::process::{Resource, getrlimit};
use stormlp_model::machine::Fact;

use super::root::Root;

/// Physical memory in bytes.
pub(crate) fn total_bytes(root: &Root) -> u64 {
    // The kernel always has a total; only a test's tree has no /proc/meminfo.
    meminfo_bytes(root, "MemTotal").unwrap_or_else(|| {
        let info = rustix::system::sysinfo();
        info.totalram * u64::from(info.mem_unit)
    })
}

/// A line of `/proc/meminfo` in bytes; the kernel's `kB` are KiB.
pub(crate) fn meminfo_bytes(root: &Root, key: &str) -> Option<u64> {
    meminfo(root, key).map(|kib: u64| kib * 1024)
}

/// The number in a line of `/proc/meminfo`, as it stands there.
pub(crate) fn meminfo(root: &Root, key: &str) -> Option<u64> {
    let text = root.text("/proc/meminfo");
    text.known()?.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name == key)
            .then(|| value.split_whitespace().next()?.parse().ok())
            .flatten()
    })
}

/// Why a line of `/proc/meminfo` is missing, as a fact.
pub(crate) fn meminfo_fact(root: &Root, key: &str) -> Fact<u64> {
    meminfo(root, key).map_or_else(
        || Fact::unknown(format!("/proc/meminfo has no `{key}`")),
        Fact::Known,
    )
}

/// Limit on locked memory in bytes; `None` is unlimited.
pub(crate) fn locked_limit_bytes() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// Limit on open files; `u64::MAX` is unlimited.
pub(crate) fn open_files_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Which mode of transparent huge pages is set: `always`, `madvise` or `never`.
pub(crate) fn transparent_huge_pages(root: &Root) -> Fact<String> {
    root.text("/sys/kernel/mm/transparent_hugepage/enabled")
        .map(|text| chosen(&text).unwrap_or(&text).to_string())
}

/// The word in brackets in `always [madvise] never`.
pub(crate) fn chosen(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Tree;
    use super::*;

    #[test]
    fn kernel_kilobytes_are_kibibytes() {
        let tree = Tree::new().file(
            "proc/meminfo",
            "MemTotal:       2048 kB\nHugePages_Total:  3",
        );
        assert_eq!(total_bytes(&tree.root()), 2 << 20);
        assert_eq!(meminfo(&tree.root(), "HugePages_Total"), Some(3));
        assert_eq!(meminfo(&tree.root(), "MemTot"), None);
    }

    #[test]
    fn the_choice_of_huge_pages_is_the_word_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("none"), None);
    }
}
