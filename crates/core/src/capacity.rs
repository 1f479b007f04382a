//! Whether a host has the open files and the memory that a run needs.

use crate::facts::{HostFacts, PROCESS_BYTES};
use crate::failure::Problems;
use crate::units::ByteSize;

/// Reports a problem if `who` (`8 threads`) need more open files than a process may have; `fewer`
/// is the remedy: `fewer --threads`.
pub fn check_open_files(
    who: &str,
    files: u64,
    fewer: Option<&str>,
    host: &HostFacts,
    problems: &mut Problems,
) {
    if files > host.open_files_limit {
        let or_fewer = fewer.map_or(String::new(), |fewer| format!(", or use {fewer}"));
        problems.capacity(
            format!(
                "{who} need {files} open files; this process may have {}",
                host.open_files_limit
            ),
            format!("raise the limit with `ulimit -n {files}`{or_fewer}"),
        );
    }
}

/// Reports a problem if the program with `bytes` for buffers and `who` needs more memory than it may
/// use.
pub fn check_memory(
    who: &str,
    bytes: u64,
    remedy: &str,
    host: &HostFacts,
    problems: &mut Problems,
) {
    let needed = PROCESS_BYTES.saturating_add(bytes);
    if needed > host.usable_memory_bytes() {
        problems.capacity(
            format!(
                "the program, its buffers and {who} need {} of memory; there is {}",
                ByteSize(needed),
                ByteSize(host.usable_memory_bytes())
            ),
            remedy,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_lacks_is_said_with_what_would_do() {
        let host =
            HostFacts { open_files_limit: 256, memory_bytes: 1 << 28, ..crate::fixtures::host() };
        let said = |files, bytes| {
            let mut problems = Problems::default();
            check_open_files("8 threads", files, Some("fewer --threads"), &host, &mut problems);
            check_memory("8 threads", bytes, "use smaller buffers", &host, &mut problems);
            problems
                .iter()
                .map(|note| format!("{}: {}", note.fact, note.remedy))
                .collect::<Vec<_>>()
        };
        assert!(said(256, 1 << 20).is_empty());
        let both = said(257, 1 << 28).join("\n");
        assert!(
            both.contains("8 threads need 257 open files; this process may have 256"),
            "{both}"
        );
        assert!(both.contains("`ulimit -n 257`, or use fewer --threads"), "{both}");
        assert!(both.contains("need 280 MiB of memory; there is 256 MiB: use smaller"), "{both}");
    }
}
