//! Leads options that people type out of habit, such as fio's or another command's of ours, to our
//! equivalents.

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use stormlp_core::shell::CommandLine;
use stormlp_kvcache::plan::Model;

/// Options of fio, and their equivalents in `stormlp gds`.
const OPTIONS: [(&[&str], &str); 30] = [
    (&["rw", "readwrite"], "--op"),
    (&["rwmixread", "rwmixwrite"], "--read-percent, which counts the reads"),
    (&["bs", "blocksize"], "--io-size"),
    (&["bsrange", "bssplit"], "--io-size 4K:64K:4K, which measures each size in turn"),
    (&["iodepth"], "--queue-depth"),
    (&["iodepth_batch", "iodepth_batch_submit"], "--tune submit-batch=N"),
    (&["numjobs"], "--threads"),
    (&["runtime"], "--duration"),
    (&["time_based"], "--duration, a time such as 5s or passes such as 2x"),
    (&["ramp_time"], "--warmup"),
    (&["rate_iops"], "--throttle iops=N, which also marks the result as slowed"),
    (&["rate"], "--throttle read=100MB/s,write=100MB/s, which also marks the result"),
    (&["loops"], "--duration 2x for two passes"),
    (&["size", "filesize"], "--file-size"),
    (&["nrfiles"], "--threads, each with one file"),
    (&["refill_buffers", "scramble_buffers"], "--tune regenerate=yes"),
    (&["zero_buffers"], "--fill zero"),
    (&["numa_cpu_nodes", "numa_mem_policy"], "--tune numa=N"),
    (&["name"], "--tag name=VALUE"),
    (&["log_avg_msec", "write_bw_log", "livecsv"], "--output FILE.series.csv"),
    (&["filename"], "--file"),
    (&["directory"], "--dir"),
    (&["direct"], "--path cpu with 1, --path buffered with 0"),
    (&["ioengine"], "--engine, and --path for the way to the accelerator"),
    (&["end_fsync", "fsync_on_close"], "--fsync"),
    (&["invalidate"], "--cache cold with 1, --cache as-is with 0"),
    (&["randseed", "randrepeat"], "--tune seed=N"),
    (&["cpus_allowed", "cpumask"], "--tune cpus=LIST"),
    (&["gpu_dev_ids"], "--device"),
    (&["output", "output_format"], "--output FILE, whose ending chooses the format"),
];

/// Options of mlpstorage, elbencho and of other places here, and our equivalents.
const OF_OTHERS: [(&[&str], &str); 39] = [
    (&["json"], "--format json"),
    (&["csv"], "--format csv"),
    (&["num-accelerators", "max-accelerators"], "--accelerators"),
    (&["accelerator-type"], "--accelerator"),
    (&["num-client-hosts", "client-hosts"], "--hosts"),
    (&["client-host-memory-in-gb"], "--host memory=512GiB, for each host"),
    (&["num-processes"], "--ranks"),
    (&["num-checkpoints-write", "writes"], "--saves"),
    (&["num-checkpoints-read", "reads"], "--restores"),
    (&["num-files-train"], "--files"),
    (&["num-users"], "--users"),
    (&["memory"], "--buffer-memory"),
    (&["cpu-mem-gb"], "--tune cpu-cache=4G"),
    (&["max-concurrent-allocs"], "--tune concurrent-writes=N"),
    (&["loops", "repeat", "trials"], "--runs"),
    (&["batch-size"], "--params reader.batch_size=N"),
    (&["read-threads"], "--params reader.read_threads=N"),
    (&["checkpoint-folder", "data-dir", "cache-dir", "dirs"], "--dir"),
    (&["block", "chunk-size"], "--io-size"),
    (&["streams", "depth"], "--queue-depth"),
    (&["timelimit", "infloop"], "--duration"),
    (&["passes"], "--duration 2x for two passes"),
    (&["rwmixpct"], "--read-percent"),
    (&["write"], "--op write"),
    (&["read"], "--op read"),
    (&["rand"], "--op randread"),
    (&["cufile", "gdsbufreg"], "--path gds"),
    (&["cuhostbufreg"], "--path cpu-gpu"),
    (&["gpuids"], "--device"),
    (&["cold", "dropcache"], "--cache cold"),
    (&["sync"], "--fsync end"),
    (&["numa", "zones"], "--tune numa=N"),
    (&["cpus", "cores"], "--tune cpus=LIST"),
    (&["seed"], "--tune seed=N"),
    (&["engine"], "--tune engine=NAME"),
    (&["delfiles"], "--clean"),
    (&["profile"], "--edition"),
    (&["all", "verbose", "lat", "latpercent"], "--details"),
    (
        &["csvfile", "jsonfile", "resfile", "export"],
        "--output FILE, whose ending chooses the format",
    ),
];

/// Options that no option of ours corresponds to, and the way to the same result.
const ADVICE: [(&[&str], &str); 4] = [
    (
        &["hosts", "hostsfile", "hostfile", "num-processes", "exec-type", "mpi-params"],
        "a launcher starts one process per host: `stormlp launch h1,h2` shows how",
    ),
    (&["allow-run-as-root", "oversubscribe"], "give it to mpirun, before stormlp"),
    (&["group_reporting", "thread"], "leave it out: all threads are reported together"),
    (&["version"], "`stormlp --version` shows it"),
];

/// Arguments that complete a command without any.
const EXAMPLES: [(&str, &str); 7] = [
    ("train", "train unet3d`; `stormlp workloads` lists the workloads"),
    ("datagen", "datagen unet3d`; `stormlp workloads` lists the workloads"),
    ("datasize", "datasize unet3d`; `stormlp workloads` lists the workloads"),
    ("checkpoint", "checkpoint llama3-8b`; `stormlp workloads` lists the models"),
    ("launch", "launch h1,h2`"),
    ("submission check", "submission check results/`"),
    ("kvcache replay", "kvcache replay mooncake.jsonl`"),
];

/// Commands that people look for, and their names here.
const COMMANDS: [(&str, &str); 13] = [
    ("training", "train"),
    ("checkpointing", "checkpoint"),
    ("kv-cache", "kvcache"),
    ("history", "report"),
    ("list", "workloads"),
    ("fio", "gds"),
    ("elbencho", "gds"),
    ("validate", "submission check"),
    ("reportgen", "report"),
    ("calibrate", "calibrate-dlio"),
    ("system-yaml", "submission describe"),
    ("man", "generate man"),
    ("completions", "generate completions"),
];

/// gdsio's options of one letter, where they are no options of ours.
const OF_GDSIO: &str = "dwsixIfDkTVRoumGyFntp";

/// Values that other tools have for options of ours, and our equivalents.
const VALUES: [(&str, &str, &str); 12] = [
    ("--op", "rw", "--op read --read-percent 50"),
    ("--op", "readwrite", "--op read --read-percent 50"),
    ("--op", "randrw", "--op randread --read-percent 50"),
    ("--engine", "libaio", "--engine uring"),
    ("--engine", "io_uring", "--engine uring"),
    ("--engine", "sync", "--engine psync"),
    ("--path", "direct", "--path cpu, which opens files with O_DIRECT"),
    ("--path", "odirect", "--path cpu, which opens files with O_DIRECT"),
    ("--path", "libaio", "--path cpu --engine uring --queue-depth N"),
    ("--path", "io_uring", "--path cpu --engine uring"),
    ("--path", "psync", "--path cpu --engine psync"),
    ("--path", "posix", "--path cpu with O_DIRECT, --path buffered through the page cache"),
];

/// Completes a usage error of `command`, typed as `words`, with the option or value of ours that is
/// meant.
pub(crate) fn suggest(error: &mut clap::Error, command: &str, words: &[String]) {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let (argument, value) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue));
    let tip = match error.kind() {
        ErrorKind::UnknownArgument if argument.starts_with('-') => for_option(&argument, command),
        ErrorKind::UnknownArgument => {
            one_value_per_flag(words).or_else(|| for_option(&argument, command))
        }
        ErrorKind::ValueValidation => {
            let option = argument.split(' ').next().unwrap_or_default();
            let known = VALUES.iter().find(|(name, theirs, _)| *name == option && *theirs == value);
            known.map(|(.., ours)| format!("{value} is {ours} here"))
        }
        ErrorKind::MissingRequiredArgument if command == "report show" => {
            Some("`stormlp report` lists the reports".to_string())
        }
        ErrorKind::MissingRequiredArgument => {
            let lacks = |error: &clap::Error| match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::Strings(all)) => {
                    all.first().is_some_and(|one| one.starts_with('<'))
                }
                _ => false,
            };
            let known = EXAMPLES.iter().find(|(known, _)| *known == command && lacks(error));
            known.map(|(_, line)| format!("for example `stormlp {line}"))
        }
        ErrorKind::InvalidSubcommand => {
            let typed = text(ContextKind::InvalidSubcommand);
            let known = COMMANDS.iter().find(|(theirs, _)| *theirs == typed);
            if known.is_some() {
                error.remove(ContextKind::SuggestedSubcommand);
            }
            let known = known.map(|(_, ours)| format!("`stormlp {ours}` does this"));
            Some(known.unwrap_or_else(|| names_in(command, &typed)))
        }
        _ => None,
    };
    // clap advises to treat an unknown option as a value, which is never meant, and names the most
    // similar option as the usage.
    if error.kind() == ErrorKind::UnknownArgument {
        error.remove(ContextKind::Suggested);
        error.remove(ContextKind::Usage);
    }
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedArg);
        let tips = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        error.insert(ContextKind::Suggested, tips);
    }
}

/// The commands that `command` has, where none is called `typed`.
fn names_in(command: &str, typed: &str) -> String {
    let all = crate::cli::command();
    let within = find(&all, command).unwrap_or(&all);
    let names: Vec<&str> = within.get_subcommands().map(Command::get_name).collect();
    let example = match Model::named(typed) {
        Ok(_) => format!(", such as `stormlp kvcache serving {typed}`"),
        Err(_) => String::new(),
    };
    format!("use one of {}{example}", names.join(", "))
}

/// The meaning of `unknown` in `command`: one of its options or arguments, misspelt, an option of
/// another tool, or of another command of ours.
fn for_option(unknown: &str, command: &str) -> Option<String> {
    let name = unknown.trim_start_matches('-');
    let dashed = name.replace('_', "-");
    if dashed != name && has(command, &dashed) {
        return Some(format!("{unknown} is --{dashed} here"));
    }
    if command == "gds" && !unknown.starts_with("--") && OF_GDSIO.contains(name) {
        return Some(format!("{unknown} is gdsio's: `stormlp gdsio` accepts gdsio's arguments"));
    }
    if command == "report" && !unknown.starts_with('-') {
        return Some("`stormlp report show PATH...` shows several reports".to_string());
    }
    if ["starter", "full"].contains(&unknown) && has(command, "generate") {
        return Some(format!("use --generate={unknown}"));
    }
    let (key, value) = unknown.trim_start_matches(['-', '+']).split_once('=').unwrap_or((name, ""));
    let is_key = !unknown.starts_with('-') && !value.is_empty() || key.starts_with("workload.");
    if is_key && argument(command, key).is_none() && has(command, "params") {
        let key = key.trim_start_matches("workload.");
        let value = if value.is_empty() { "VALUE" } else { value };
        return Some(format!("use --params {key}={value}, once per key"));
    }
    let names_workload = argument(command, "workload").filter(|_| name == "model");
    if let Some(argument) = argument(command, key).or(names_workload) {
        return Some(format!("give {argument} alone, without {unknown}"));
    }
    elsewhere(unknown, name, command)
}

/// The equivalent of an option of another tool or another command.
fn elsewhere(unknown: &str, name: &str, command: &str) -> Option<String> {
    let named = |entry: &&(&[&str], &'static str)| entry.0.contains(&name);
    let of_fio = OPTIONS.iter().find(named).map(|(_, ours)| *ours);
    let mut theirs = OPTIONS.iter().chain(&OF_OTHERS).filter(named).map(|(_, ours)| *ours);
    let is_here = |ours: &&str| match ours.strip_prefix("--tune ") {
        Some(key) => tunes(command, key),
        None => has(command, first_word(ours)),
    };
    if let Some(ours) = theirs.find(is_here) {
        return Some(format!("{unknown} is {ours} here"));
    }
    let advice = ADVICE.iter().find(|(theirs, _)| theirs.contains(&name));
    if let Some((_, advice)) = advice.filter(|_| unknown.starts_with("--")) {
        return Some(format!("{unknown}: {advice}"));
    }
    let all = crate::cli::command();
    if of_fio.is_none() && all.find_subcommand(name).is_some() {
        return Some(format!("`stormlp {name}` is a command"));
    }
    let owners: Vec<String> = commands(&all)
        .filter(|(_, owner)| bears(owner, name) && unknown.starts_with("--"))
        .map(|(owner, _)| owner)
        .collect();
    match (owners.as_slice(), of_fio) {
        ([], None) => None,
        ([], Some(ours)) => Some(format!(
            "{unknown} is fio's; `stormlp gds` measures as fio does: there it is {ours}"
        )),
        (owners, _) => Some(format!(
            "{unknown} is an option of {}; `stormlp {command} --help` lists the options of {command}",
            owners.join(", ")
        )),
    }
}

/// The name of the option that an answer begins with.
fn first_word(answer: &str) -> &str {
    answer.trim_start_matches('-').split([' ', ',']).next().unwrap_or_default()
}

/// Whether `command` has the key of `--tune` that a setting sets, as `--tune help` lists it.
fn tunes(command: &str, setting: &str) -> bool {
    let key = format!("  {} <", setting.split('=').next().unwrap_or_default());
    let words = ["stormlp"].into_iter().chain(command.split(' ')).chain(["x", "--tune", "help"]);
    let listed = crate::cli::Cli::parsed(words).err();
    listed.is_some_and(|keys| keys.to_string().contains(&key))
}

/// The command line with a `--params` before each of its values, if some `words` lack one.
fn one_value_per_flag(words: &[String]) -> Option<String> {
    let is_setting = |word: &String| word.contains('=') && !word.starts_with('-');
    let mut line = words.to_vec();
    let mut lacks = |two: &[String]| {
        (is_setting(&two[0]) || two[0].starts_with("--params=")) && is_setting(&two[1])
    };
    while let Some(at) = line.windows(2).position(&mut lacks) {
        line.insert(at + 1, "--params".to_string());
    }
    let is_better =
        line.len() > words.len() && words.iter().any(|word| word.starts_with("--params"));
    is_better.then(|| format!("each --params has one value: `stormlp {}`", CommandLine::new(line)))
}

/// The argument without an option that a command calls `name`.
fn argument(command: &str, name: &str) -> Option<String> {
    let all = crate::cli::command();
    let mut arguments = find(&all, command)?.get_positionals();
    let found = arguments.find(|argument| argument.get_id() == name)?;
    found.get_value_names()?.first().map(ToString::to_string)
}

/// The command that the `words` of a command line begin with: `gds`, or `kvcache serving`.
pub(crate) fn command_in(words: &[String]) -> Option<String> {
    let mut words = words.iter().filter(|word| !word.starts_with('-'));
    let (all, first) = (crate::cli::command(), words.next()?.clone());
    let both = words.next().map(|second| format!("{first} {second}"));
    Some(both.filter(|both| find(&all, both).is_some()).unwrap_or(first))
}

/// Whether a word is a command of ours.
pub(crate) fn is_command(word: &str) -> bool {
    find(&crate::cli::command(), word).is_some()
}

/// All commands of ours and their subcommands, by name.
fn commands(all: &Command) -> impl Iterator<Item = (String, &Command)> {
    all.get_subcommands().flat_map(|command| {
        let name = command.get_name();
        let below = command.get_subcommands();
        let below = below.map(move |below| (format!("{name} {}", below.get_name()), below));
        std::iter::once((name.to_string(), command)).chain(below)
    })
}

/// The command of ours of this name.
fn find<'a>(all: &'a Command, name: &str) -> Option<&'a Command> {
    commands(all).find(|(known, _)| known == name).map(|(_, command)| command)
}

/// Whether `command` itself has the option `--NAME`.
fn bears(command: &Command, name: &str) -> bool {
    command.get_arguments().any(|argument| argument.get_long() == Some(name))
}

/// Whether a command of ours has the option `--NAME`, or one of its subcommands.
fn has(command: &str, name: &str) -> bool {
    let all = crate::cli::command();
    let of_all = all.get_arguments().filter(|argument| argument.is_global_set());
    let is_global = of_all.into_iter().any(|argument| argument.get_long() == Some(name));
    let own = find(&all, command).into_iter();
    let own = own.flat_map(|own| std::iter::once(own).chain(own.get_subcommands()));
    is_global || own.into_iter().any(|command| bears(command, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_names_options_that_exist() {
        let answers = OPTIONS.iter().map(|(_, ours)| *ours);
        for (_, ours) in OF_OTHERS {
            let first = first_word(ours);
            let all = crate::cli::command();
            let mut commands = all.get_subcommands();
            assert!(commands.any(|command| has(command.get_name(), first)), "{ours}");
            let key = ours.strip_prefix("--tune ");
            let tuned = ["gds", "datagen", "kvcache mlperf"];
            assert!(key.is_none_or(|key| tuned.iter().any(|one| tunes(one, key))), "{ours}");
        }
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
            ("-w", "gds", "`stormlp gdsio` accepts gdsio's arguments"),
            ("--workload", "train", "give WORKLOAD alone, without --workload"),
            ("--num-accelerators", "train", "--num-accelerators is --accelerators here"),
            ("--block", "gds", "--block is --io-size here"),
            ("--checkpoint-folder", "checkpoint", "--checkpoint-folder is --dir here"),
            ("--mtbf", "train", "--mtbf is an option of plan"),
            ("--queue_depth", "gds", "--queue_depth is --queue-depth here"),
            ("--prefixes", "kvcache mlperf", "--prefixes is an option of kvcache serving"),
            ("--cache-dir", "kvcache", "--cache-dir is --dir here"),
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

    #[test]
    fn each_value_of_params_gets_its_own_option() {
        let answer = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_string).collect();
            one_value_per_flag(&words)
        };
        for (typed, right) in [
            ("train --params a=1 b=2 unet3d", "train --params a=1 --params b=2 unet3d"),
            (
                "plan unet3d --params=a=1 b=2 c=3",
                "plan unet3d --params=a=1 --params b=2 --params c=3",
            ),
        ] {
            assert!(answer(typed).unwrap().ends_with(&format!("`stormlp {right}`")), "{typed}");
        }
        assert_eq!(answer("train unet3d --params a=1 --files 3 x=y"), None);
    }
}
