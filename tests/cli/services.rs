//! System calls that a file system, an old kernel or a container refuses although a run does not
//! depend on them: it goes on.

use std::fs;

use crate::limits::{SMALL, told, without};

const EPERM: i32 = 1;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const ESPIPE: i32 = 29;
const EROFS: i32 = 30;
const ENOLCK: i32 = 37;
const ENOSYS: i32 = 38;
const EOPNOTSUPP: i32 = 95;

/// The calls with their numbers on this architecture, and the errors of each.
#[cfg(target_arch = "x86_64")]
const CALLS: [(&str, u32, &[i32]); 12] = [
    ("flock", 73, &[ENOSYS, EOPNOTSUPP, ENOLCK, EPERM, EINVAL]),
    ("fdatasync", 75, &[EINVAL, ENOSYS, EOPNOTSUPP, EROFS, EPERM]),
    ("fadvise64", 221, &[ENOSYS, EOPNOTSUPP, EINVAL, ESPIPE, EPERM]),
    ("fallocate", 285, &[EOPNOTSUPP, ENOSYS, EPERM]),
    ("statfs", 137, &[ENOSYS, EOPNOTSUPP, EACCES, EPERM]),
    ("fstatfs", 138, &[ENOSYS, EOPNOTSUPP, EACCES, EPERM]),
    ("syncfs", 306, &[ENOSYS, EOPNOTSUPP, EINVAL, EPERM]),
    ("cachestat", 451, &[ENOSYS, EOPNOTSUPP, EPERM]),
    ("mincore", 27, &[ENOSYS, EPERM]),
    ("madvise", 28, &[ENOSYS, EINVAL, EPERM]),
    ("fsetxattr", 190, &[EOPNOTSUPP, ENOSYS, EPERM]),
    ("sched_setaffinity", 203, &[EINVAL, ENOSYS, EPERM]),
];

/// The commands, in order: each leaves data for the next.
fn lines() -> [String; 6] {
    [
        "gds --dir g --path buffered --cache cold --threads 1 --file-size 1M --duration 1x"
            .to_string(),
        format!("datagen unet3d --files 40 --dir d {SMALL}"),
        format!("train unet3d --dir d --files 40 --steps 4 --epochs 1 --cache cold {SMALL}"),
        "checkpoint tiny.yaml --ranks 8 --pause 0 --saves 1 --restores 0 --dir c".to_string(),
        "gdsio -D g -d 0 -w 1 -s 1M -i 1M -x 1 -I 0 -T 1".to_string(),
        "clean g".to_string(),
    ]
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_refused_service_ends_no_run() {
    let mut wrong = Vec::new();
    for (name, call, errors) in CALLS {
        for (nth, errno) in errors.iter().enumerate() {
            let folder = tempfile::tempdir_in(".").unwrap();
            fs::write(folder.path().join("tiny.yaml"), crate::checkpoint::TINY).unwrap();
            // The first error meets every command, the others the first one.
            for line in lines().iter().take(if nth == 0 { 6 } else { 1 }) {
                let Some(output) = without(folder.path(), call, *errno, line) else { return };
                // A miss of the target is a result.
                if !matches!(output.status.code(), Some(0 | 6)) {
                    wrong.push(format!("{name} {errno}: {line}\n  {}", told(&output)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_run_without_locks_or_drops_says_so() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let line = &lines()[0];
    for (call, fact) in [(73, "files cannot be locked here"), (221, "cannot be dropped")] {
        let Some(output) = without(folder.path(), call, ENOSYS, &format!("{line} --details"))
        else {
            return;
        };
        let said = String::from_utf8_lossy(&output.stdout);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(fact), "{fact}: {said}\n{}", told(&output));
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_kernel_without_statx_is_told_before_anything_is_made() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let Some(output) = without(folder.path(), 332, ENOSYS, &lines()[0]) else { return };
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
