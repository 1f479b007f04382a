//! Numbers that nobody means in options and workloads: each is refused or planned with, and none ends a
//! command with a panic.

use assert_cmd::Command;

use crate::{stdout, stormlp};

/// Commands that plan and measure nothing.
const COMMANDS: [(&str, &str); 8] = [
    ("gds", "--dir d --dry-run"),
    ("train", "unet3d --dir d --dry-run"),
    ("checkpoint", "llama3-8b --dir d --dry-run"),
    ("kvcache serving", "tiny-1b --dir d --dry-run"),
    ("kvcache mlperf", "tiny-1b --dir d --dry-run"),
    ("datagen", "unet3d --dir d --dry-run"),
    ("datasize", "unet3d --host memory=1GiB -n 1"),
    ("plan", "unet3d --host memory=1GiB -n 1 --storage read=1GB/s"),
];

const EXTREMES: [&str; 8] = [
    "0",
    "-1",
    "4294967295",
    "9223372036854775808",
    "18446744073709551615",
    "1e300",
    "16EiB",
    "NaN",
];

fn in_folder(folder: &std::path::Path, words: &str) -> Command {
    let mut command = stormlp();
    command.current_dir(folder).args(words.split_whitespace());
    command.timeout(std::time::Duration::from_secs(120));
    command
}

/// The options of a command that have values, and the keys of its `--tune`.
fn options(folder: &std::path::Path, (name, rest): (&str, &str)) -> Vec<String> {
    let named = |line: &str| {
        let (option, _) = line.trim().split_once(" <")?;
        option.rsplit(", ").next().map(str::to_string)
    };
    let help = stdout(in_folder(folder, &format!("{name} --help")).assert().success());
    let options = help.lines().filter_map(named).filter(|option| option.starts_with("--"));
    let tune = in_folder(folder, &format!("{name} {rest} --tune help")).output().unwrap();
    let tune = String::from_utf8([tune.stdout, tune.stderr].concat()).unwrap();
    let is_key = |key: &String| !key.starts_with('-') && !key.contains(' ');
    let keys = tune.lines().filter_map(named).filter(is_key);
    options.chain(keys.map(|key| format!("--tune={key}"))).collect()
}

/// Every `step`th option with every extreme.
fn each(step: usize) {
    let folder = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for (name, rest) in COMMANDS {
        let options = options(folder.path(), (name, rest));
        assert!(options.len() > 5, "{name}: {options:?}");
        all.extend(options.into_iter().map(|option| (name, rest, option)));
    }
    let mut wrong = Vec::new();
    for (name, rest, option) in all.iter().step_by(step) {
        // An option is given once.
        let mut rest: Vec<&str> = rest.split(' ').collect();
        if let Some(nth) = rest.iter().position(|word| word == option) {
            rest.drain(nth..rest.len().min(nth + 2));
        }
        for extreme in EXTREMES {
            let words = format!("{name} {} {option}={extreme}", rest.join(" "));
            let code = in_folder(folder.path(), &words).output().unwrap().status.code();
            if !matches!(code, Some(0 | 2 | 3 | 4 | 6)) {
                wrong.push(format!("{words}: {code:?}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_sample_of_options_with_numbers_that_nobody_means_is_refused_or_planned_with() {
    each(13);
}

#[test]
#[ignore = "every option of eight commands takes minutes"]
fn every_option_with_numbers_that_nobody_means_is_refused_or_planned_with() {
    each(1);
}

#[test]
fn numbers_beyond_the_clock_and_the_sums_of_a_simulation_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let plan = "plan unet3d --host memory=1GiB -n 1 --storage read=1GB/s";
    for (words, said) in [
        (
            "plan unet3d --host memory=1GiB,barrier=2147483647s -n 1 --storage read=1GB/s"
                .to_string(),
            "use 0 to 60s",
        ),
        (format!("{plan} --client-overhead step=5000000000h,gib=1s"), "use 0 to 1h"),
        (format!("{plan} --client-overhead step=1s,gib=5000000000h"), "use 0 to 1h"),
        (
            format!("{plan} --params dataset.record_length_bytes_stdev=18446744073709551615"),
            "it must be 0 to 1000000000000000",
        ),
        ("gds --path null --warmup 5000000000000h".to_string(), "use 0 to 168h"),
    ] {
        let output = in_folder(folder.path(), &words).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(matches!(output.status.code(), Some(2 | 3)), "{words}: {error}");
        assert!(error.contains(said), "{words}: {error}");
    }
}
