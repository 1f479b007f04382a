//! Maps fio options to those of `stormlp gds`.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::commands::workloads::of_checkpoints;

/// fio options and their equivalents.
const ANSWERS: [(&[&str], &str); 33] = [
    (&["rw", "readwrite"], "--op"),
    (&["bs", "blocksize"], "--io-size"),
    (&["bsrange"], "--io-size 4K:64K:4K, which measures each size in turn"),
    (&["bssplit"], "a cell has one size, so that it tells what that size costs: --io-size 4K,64K"),
    (&["iodepth"], "--queue-depth"),
    (&["iodepth_batch", "iodepth_batch_submit"], "--submit-batch"),
    (&["numjobs"], "--threads"),
    (&["runtime"], "--duration"),
    (&["time_based"], "a cell always runs for its --duration, or for its --passes"),
    (&["ramp_time"], "--warmup"),
    (&["rate_iops"], "--throttle iops=N, which also marks the result as that of slowed storage"),
    (
        &["rate"],
        "--throttle read=100MB/s,write=100MB/s, which also marks the result as that of slowed storage",
    ),
    (&["thinktime"], "threads never pause here; --throttle iops=N limits transfers per second"),
    (&["loops"], "--passes"),
    (&["size", "filesize"], "--file-size"),
    (&["filename"], "--file"),
    (&["directory"], "--dir"),
    (&["direct"], "--path cpu with 1, --path buffered with 0"),
    (&["ioengine"], "--engine, and --path for the way to the accelerator"),
    (&["rwmixread"], "--read-percent"),
    (&["rwmixwrite"], "--read-percent, which counts the reads"),
    (&["end_fsync", "fsync_on_close"], "--fsync"),
    (&["invalidate"], "--cache cold with 1, --cache as-is with 0"),
    (&["randseed"], "--seed"),
    (&["randrepeat"], "the same --seed gives the same offsets, as randrepeat=1 does"),
    (&["norandommap"], "random offsets are always drawn so, with repetition; leave it out"),
    (&["nrfiles"], "a folder has a file for each thread; --file, repeated, names others"),
    (&["cpus_allowed", "cpumask"], "--cpus"),
    (&["percentile_list"], "more are shown with --details, the whole histogram with --format json"),
    (&["gpu_dev_ids"], "--device"),
    (&["output"], "--export"),
    (&["output_format"], "--format"),
    (
        &["name", "group_reporting", "thread"],
        "not needed, since all threads of a cell are one result; --job makes groups of them",
    ),
];

/// Options of other commands of ours, and what is meant by them here.
const ELSEWHERE: [(&str, &str, &str); 3] = [
    ("gds", "--cold", "--cold is --cache cold here"),
    ("gds", "--warm", "--warm is --cache warm here"),
    (
        "clean",
        "--keep",
        "--keep is an option of `stormlp checkpoint`; clean removes all that stormlp made in DIR, \
         and --dry-run shows it first",
    ),
];

/// fio's mixed modes and their equivalents.
const MIXES: [(&str, &str); 2] =
    [("rw", "--op read --read-percent 50"), ("randrw", "--op randread --read-percent 50")];

/// Values of our options that only other programs have, and ours.
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

/// Suggests ours for a value of another program.
fn answer_value(error: &mut clap::Error) -> Option<()> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let (argument, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
    let option = argument.split(' ').next()?;
    let (.., ours) = VALUES.iter().find(|(name, theirs, _)| *name == option && *theirs == value)?;
    let tip = StyledStr::from(format!("{value} is {ours} here"));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    Some(())
}

/// fio's methods of --verify.
const CHECKSUMS: [&str; 13] = [
    "md5",
    "crc64",
    "crc32c",
    "crc32c-intel",
    "crc32",
    "crc16",
    "crc7",
    "xxhash",
    "sha256",
    "sha512",
    "sha1",
    "meta",
    "pattern",
];

/// If fio's `--verify crc32c` was given, says that it takes no such method.
fn answer_verify(error: &mut clap::Error, words: &[String]) -> Option<()> {
    let is_method = |word: &str| CHECKSUMS.contains(&word);
    let mut pairs = words.iter().zip(words.iter().skip(1).map(String::as_str).chain([""]));
    let method = pairs.find_map(|(word, next)| match word.strip_prefix("--verify")? {
        "" => is_method(next).then(|| next.to_string()),
        rest => rest.strip_prefix('=').filter(|method| is_method(method)).map(str::to_string),
    })?;
    let tip = format!("--verify takes no method such as {method}: it compares every byte");
    error.remove(ContextKind::SuggestedArg);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    Some(())
}

/// Suggests an option for one that was typed with underscores, or that another command has.
fn answer_spelling(error: &mut clap::Error, command: &str, unknown: &str) -> Option<()> {
    let name = unknown.strip_prefix("--")?.replace('_', "-");
    let here = ELSEWHERE.iter().find(|(of, option, _)| *of == command && *option == unknown);
    let tip = match here {
        Some((.., tip)) => (*tip).to_string(),
        None if has(command, &name) && unknown != format!("--{name}") => {
            format!("{unknown} is --{name} here")
        }
        None if command == "compare" => {
            let owner = ["gds", "train", "checkpoint"].into_iter().find(|one| has(one, &name))?;
            format!(
                "--{name} is an option of `stormlp {owner}`: give it within --run and --against, \
                 as in --against 'stormlp {owner} --{name} …'"
            )
        }
        None => return None,
    };
    error.remove(ContextKind::SuggestedArg);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    Some(())
}

/// Whether a command of ours has the option `--NAME`.
fn has(command: &str, name: &str) -> bool {
    let all = crate::cli::command();
    let command = all.find_subcommand(command);
    command.is_some_and(|command| {
        command.get_arguments().any(|argument| argument.get_long() == Some(name))
    })
}

/// If `stormlp plan` lacks its storage and names a model of checkpoints, leads to checkpoints.
fn answer_plan(error: &mut clap::Error, words: &[String]) -> Option<()> {
    let mut words = words.iter().filter(|word| !word.starts_with('-'));
    let help = (words.next()? == "plan").then(|| words.find_map(|word| of_checkpoints(word)))??;
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![help.into()]));
    Some(())
}

/// Completes the usage error of `words` with tips that lead to our options: for fio options, the
/// values and spellings of other programs, and options that another command has.
pub(crate) fn answer(error: &mut clap::Error, words: &[String]) {
    match error.kind() {
        ErrorKind::ValueValidation if answer_verify(error, words).is_none() => {
            answer_value(error);
        }
        ErrorKind::MissingRequiredArgument => {
            answer_plan(error, words);
        }
        ErrorKind::TooManyValues => {
            answer_verify(error, words);
        }
        ErrorKind::UnknownArgument if answer_verify(error, words).is_none() => {
            answer_unknown(error, words);
        }
        // In all other errors clap names an option that is known, and what is wrong with it.
        _ => {}
    }
}

/// Suggests ours for an option that the command does not have, and for all other fio options among
/// `words` if the command measures as fio does.
fn answer_unknown(error: &mut clap::Error, words: &[String]) {
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(arg)) => arg.clone(),
        _ => return,
    };
    let Some(command) = words.iter().find(|word| !word.starts_with('-')) else {
        return;
    };
    let Some(ours) = instead(&unknown) else {
        answer_spelling(error, command, &unknown);
        return;
    };
    let is_here = ours.strip_prefix("--").is_some_and(|name| has(command, name));
    let tips = match command.as_str() {
        "gds" => tips(words),
        _ if is_here => vec![format!("{unknown} is {ours} here")],
        "train" | "checkpoint" => vec![format!(
            "{unknown} is fio's; `stormlp gds` measures as fio does, and there it is {ours}"
        )],
        _ => {
            answer_spelling(error, command, &unknown);
            return;
        }
    };
    error.remove(ContextKind::SuggestedArg);
    // clap's own usage line would name options that were typed or that belong to another command.
    let usage = StyledStr::from(format!("Usage: stormlp {command} [OPTIONS]"));
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    let tips = tips.into_iter().map(StyledStr::from).collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
}

/// Suggestions for each fio option among `words`.
fn tips(words: &[String]) -> Vec<String> {
    let mut tips: Vec<String> = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (word.as_str(), words.get(index + 1).map(String::as_str)),
        };
        let Some(ours) = instead(option) else {
            continue;
        };
        let is_mix = |(name, _): &&(&str, &str)| ours == "--op" && value == Some(*name);
        let tip = match MIXES.iter().find(is_mix) {
            Some((mix, ours)) => format!("{option}={mix} is {ours} here"),
            // With a comma it is a sentence, which ends by itself.
            None if ours.starts_with("--") && ours.contains(", ") => format!("{option} is {ours}"),
            None if ours.starts_with("--") => format!("{option} is {ours} here"),
            None => format!("{option}: {ours}"),
        };
        if !tips.contains(&tip) {
            tips.push(tip);
        }
    }
    tips
}

/// The equivalent of a fio option.
fn instead(option: &str) -> Option<&'static str> {
    // fio writes underscores, and hands write hyphens.
    let name = option.strip_prefix("--")?.replace('-', "_");
    let mut answers = ANSWERS.iter();
    answers.find_map(|(theirs, ours)| theirs.contains(&&*name).then_some(*ours))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;

    fn advice(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        let all = ["stormlp".to_string()].into_iter().chain(words.clone());
        let mut error = Cli::try_parse_from(all).unwrap_err();
        answer(&mut error, &words);
        error.to_string()
    }

    #[test]
    fn all_of_fios_options_are_answered_at_once() {
        let text =
            advice("gds --rw=randread --bs 4k --iodepth=32 --numjobs 8 --runtime=60 --seed 1");
        for tip in [
            "tip: --rw is --op here",
            "tip: --bs is --io-size here",
            "tip: --iodepth is --queue-depth here",
            "tip: --numjobs is --threads here",
            "tip: --runtime is --duration here",
        ] {
            assert!(text.contains(tip), "{text}");
        }
        assert!(!text.contains("similar argument"), "{text}");
        assert!(text.contains("Usage: stormlp gds [OPTIONS]\n"), "{text}");
        let text = advice("gds --rw randrw");
        assert!(text.contains("--rw=randrw is --op randread --read-percent 50 here"), "{text}");
    }

    #[test]
    fn spellings_and_values_of_other_programs_lead_to_ours() {
        for (line, tip) in [
            ("gds --ramp-time 3", "--ramp-time is --warmup here"),
            ("gds --rate-iops=100", "--rate-iops is --throttle iops=N"),
            ("gds --op randrw", "randrw is --op randread --read-percent 50 here"),
            ("gds --path libaio", "libaio is --path cpu --engine uring --queue-depth N here"),
            ("gds --rate=100m", "--rate is --throttle read=100MB/s"),
            ("gds --norandommap", "--norandommap: random offsets are always drawn so"),
            ("gds --cpus_allowed=0-3", "--cpus_allowed is --cpus here"),
            ("gds --verify crc32c", "--verify takes no method such as crc32c"),
            ("gds --verify=md5", "--verify takes no method such as md5"),
            ("gds --submit_batch 4", "--submit_batch is --submit-batch here"),
            ("compare --submit_batch 4", "--submit-batch is an option of `stormlp gds`"),
            ("plan llama3-70b", "`stormlp checkpoint llama3-70b` runs them"),
            ("gds --percentile_list=99", "--percentile_list: more are shown with --details"),
            ("gds --cold", "--cold is --cache cold here"),
            ("clean --keep", "--dry-run shows it first"),
            ("plan --output x.html", "--output is --export here"),
            ("compare --output x.html", "--output is --export here"),
            ("gds --path direct", "direct is --path cpu, which opens files with O_DIRECT here"),
        ] {
            let text = advice(line);
            assert!(text.contains(tip), "{line}: {text}");
        }
    }

    #[test]
    fn only_unknown_options_get_a_tip() {
        for line in [
            "train unet3d --cold --warm",
            "gds --verify=foo",
            "gds --dry-run=1",
            "train unet3d --generate=x",
            "checkpoint llama3-8b --cold=1",
        ] {
            let text = advice(line);
            assert!(!text.contains("tip:"), "{line}: {text}");
        }
        let text = advice("gds --rate_iops 5");
        assert!(text.contains("slowed storage\n"), "{text}");
    }

    #[test]
    fn other_commands_and_arguments_are_left_to_clap() {
        assert!(!advice("doctor --iodepth 3").contains("is fio's"));
        for line in ["train unet3d --rw randread", "checkpoint llama3-8b --rw=read"] {
            let text = advice(line);
            assert!(
                text.contains("`stormlp gds` measures as fio does, and there it is --op"),
                "{text}"
            );
            assert!(!text.contains("similar argument"), "{text}");
        }
        assert!(advice("gds --threadz 3").contains("'--threads'"));
    }

    #[test]
    fn no_option_that_is_answered_is_one_of_ours() {
        use clap::CommandFactory as _;
        let command = Cli::command();
        let gds = command.find_subcommand("gds").unwrap();
        let ours: Vec<&str> = gds.get_arguments().filter_map(clap::Arg::get_long).collect();
        for (theirs, _) in ANSWERS {
            assert!(theirs.iter().all(|name| !ours.contains(name)), "{theirs:?}");
        }
    }
}
