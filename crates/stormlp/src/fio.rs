//! Maps fio options to those of `stormlp gds`.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// fio options and their equivalents.
const ANSWERS: [(&[&str], &str); 25] = [
    (&["rw", "readwrite"], "--op"),
    (&["bs", "blocksize"], "--io-size"),
    (&["bsrange", "bssplit"], "--io-size with a list or a sweep"),
    (&["iodepth"], "--queue-depth"),
    (&["iodepth_batch", "iodepth_batch_submit"], "--submit-batch"),
    (&["numjobs"], "--threads"),
    (&["runtime"], "--duration"),
    (&["time_based"], "a cell always runs for its --duration, or for its --passes"),
    (&["ramp_time"], "--warmup"),
    (&["rate_iops"], "--throttle iops=N, which also marks the result as that of slowed storage"),
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
    (&["gpu_dev_ids"], "--device"),
    (&["output"], "--export"),
    (&["output_format"], "--format"),
    (
        &["name", "group_reporting", "thread"],
        "not needed, since all threads of a cell are one result; --job makes groups of them",
    ),
];

/// Options that every command with a report has.
const SHARED: [&str; 3] = ["--export", "--format", "--device"];

/// fio's mixed modes and their equivalents.
const MIXES: [(&str, &str); 2] =
    [("rw", "--op read --read-percent 50"), ("randrw", "--op randread --read-percent 50")];

/// Values of our options that only other programs have, and ours.
const VALUES: [(&str, &str, &str); 5] = [
    ("--op", "rw", "--op read --read-percent 50"),
    ("--op", "readwrite", "--op read --read-percent 50"),
    ("--op", "randrw", "--op randread --read-percent 50"),
    ("--path", "direct", "--path cpu, which opens files with O_DIRECT"),
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

/// If `stormlp gds` was given an unknown argument that is a fio option, suggests its equivalent,
/// and those of all other fio options among `words`.
pub(crate) fn answer(error: &mut clap::Error, words: &[String]) {
    if error.kind() == ErrorKind::ValueValidation {
        answer_value(error);
        return;
    }
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(arg)) => arg.clone(),
        _ => return,
    };
    let command = words.iter().find(|word| !word.starts_with('-'));
    let (ErrorKind::UnknownArgument, Some(command), Some(ours)) =
        (error.kind(), command, instead(&unknown))
    else {
        return;
    };
    let tips = match command.as_str() {
        "gds" => tips(words),
        "train" | "checkpoint" if SHARED.contains(&ours) => {
            vec![format!("{unknown} is {ours} here")]
        }
        "train" | "checkpoint" => vec![format!(
            "{unknown} is fio's; `stormlp gds` measures as fio does, and there it is {ours}"
        )],
        _ => return,
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
            ("gds --path direct", "direct is --path cpu, which opens files with O_DIRECT here"),
        ] {
            let text = advice(line);
            assert!(text.contains(tip), "{line}: {text}");
        }
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
