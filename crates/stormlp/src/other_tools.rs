//! Leads the options and values of fio and other tools to those of stormlp.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Options of fio, and what does the same in `stormlp gds`.
const OPTIONS: [(&[&str], &str); 24] = [
    (&["rw", "readwrite"], "--op"),
    (&["rwmixread", "rwmixwrite"], "--read-percent, which counts the reads"),
    (&["bs", "blocksize"], "--io-size"),
    (&["bsrange", "bssplit"], "--io-size 4K:64K:4K, which measures each size in turn"),
    (&["iodepth"], "--queue-depth"),
    (&["iodepth_batch", "iodepth_batch_submit"], "--submit-batch"),
    (&["numjobs"], "--threads"),
    (&["runtime"], "--duration"),
    (&["time_based"], "--duration or --passes, one of which always applies"),
    (&["ramp_time"], "--warmup"),
    (&["rate_iops"], "--throttle iops=N, which also marks the result as that of slowed storage"),
    (&["rate"], "--throttle read=100MB/s,write=100MB/s, which also marks the result"),
    (&["loops"], "--passes"),
    (&["size", "filesize"], "--file-size"),
    (&["filename"], "--file"),
    (&["directory"], "--dir"),
    (&["direct"], "--path cpu with 1, --path buffered with 0"),
    (&["ioengine"], "--engine, and --path for the way to the accelerator"),
    (&["end_fsync", "fsync_on_close"], "--fsync"),
    (&["invalidate"], "--cache cold with 1, --cache as-is with 0"),
    (&["randseed", "randrepeat"], "--seed"),
    (&["cpus_allowed", "cpumask"], "--cpus"),
    (&["gpu_dev_ids"], "--device"),
    (&["output", "output_format"], "--output FILE, whose ending chooses the format"),
];

/// Values that other tools have for options of ours, and what does the same here.
const VALUES: [(&str, &str, &str); 9] = [
    ("--op", "rw", "--op read --read-percent 50"),
    ("--op", "readwrite", "--op read --read-percent 50"),
    ("--op", "randrw", "--op randread --read-percent 50"),
    ("--path", "direct", "--path cpu, which opens files with O_DIRECT"),
    ("--path", "odirect", "--path cpu, which opens files with O_DIRECT"),
    ("--path", "libaio", "--path cpu --engine uring --queue-depth N"),
    ("--path", "io_uring", "--path cpu --engine uring"),
    ("--path", "psync", "--path cpu --engine psync"),
    ("--path", "posix", "--path cpu with O_DIRECT, --path buffered through the page cache"),
];

/// Completes a usage error of `command` with the option or value of ours that is meant.
pub(crate) fn suggest(error: &mut clap::Error, command: &str) {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let (argument, value) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue));
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => for_option(&argument, command),
        ErrorKind::ValueValidation => {
            let option = argument.split(' ').next().unwrap_or_default();
            let known = VALUES.iter().find(|(name, theirs, _)| *name == option && *theirs == value);
            known.map(|(.., ours)| format!("{value} is {ours} here"))
        }
        _ => None,
    };
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedArg);
        let tips = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        error.insert(ContextKind::Suggested, tips);
    }
}

/// What `unknown` is in `command`: one of its own options with underscores, or an option of fio.
fn for_option(unknown: &str, command: &str) -> Option<String> {
    let name = unknown.trim_start_matches('-');
    let dashed = name.replace('_', "-");
    if dashed != name && has(command, &dashed) {
        return Some(format!("{unknown} is --{dashed} here"));
    }
    let (_, ours) = OPTIONS.iter().find(|(theirs, _)| theirs.contains(&name))?;
    let first = ours.trim_start_matches('-').split([' ', ',']).next().unwrap_or_default();
    if has(command, first) {
        Some(format!("{unknown} is {ours} here"))
    } else {
        Some(format!("{unknown} is fio's; `stormlp gds` measures as fio does: there it is {ours}"))
    }
}

/// Whether a command of ours has the option `--NAME`.
fn has(command: &str, name: &str) -> bool {
    let all = crate::cli::command();
    let of_all = all.get_arguments().filter(|argument| argument.is_global_set());
    let own = all.find_subcommand(command).into_iter().flat_map(|one| one.get_arguments());
    own.chain(of_all).any(|argument| argument.get_long() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_names_options_that_exist() {
        let answers = OPTIONS.iter().map(|(_, ours)| *ours);
        for ours in answers.chain(VALUES.iter().map(|(.., ours)| *ours)) {
            for word in ours.split([' ', ',']).filter_map(|word| word.strip_prefix("--")) {
                assert!(has("gds", word), "--{word}");
            }
        }
    }

    #[test]
    fn options_of_fio_are_answered_where_they_are_typed() {
        for (unknown, command, expected) in [
            ("--iodepth", "gds", "--iodepth is --queue-depth here"),
            ("--queue_depth", "gds", "--queue_depth is --queue-depth here"),
            (
                "--numjobs",
                "checkpoint",
                "`stormlp gds` measures as fio does: there it is --threads",
            ),
        ] {
            let tip = for_option(unknown, command).unwrap();
            assert!(tip.contains(expected), "{tip}");
        }
        assert_eq!(for_option("--nonsense", "gds"), None);
    }
}
