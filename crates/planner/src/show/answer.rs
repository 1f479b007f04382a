//! The answer itself: its headline, the rows on the screen, and the facts below them.

use super::words::{limit_in_words, limited, percent, reads_less, times, unit};
use crate::plan::request::MAX_ACCELERATORS;
use crate::plan::{AnswerRow, AtCount, LimitedBy, RowKind, SizingAnswer, StoragePart};
use stormlp_core::units::{ByteSize, counted, format_duration};
use stormlp_training::plan::datasize::{Binding, MEMORY_MULTIPLE, MIN_STEPS};

use stormlp_show::document::{Facts, Quantity, Section, Table, number, word};
use stormlp_show::numbers::{short, thousands};

/// The answer to the question that was asked, with the assumption that it depends on most.
pub(super) fn headline(answer: &SizingAnswer) -> String {
    let SizingAnswer { workload, accelerator, accelerators, .. } = answer;
    let up_to = if answer.is_upper_bound() { "up to " } else { "" };
    let threshold = percent(answer.threshold_percent);
    let au = format!("AU {up_to}{}, {threshold} required", percent(answer.au_percent));
    let devices = answer.storage_model.devices;
    let verdict = match (answer.asked, answer.meets_threshold) {
        (false, _) => format!("{}: {au}", most(answer)),
        (true, true) if *accelerators > answer.largest_accelerators => format!(
            "{accelerators} {accelerator} reach {threshold} only by prefetched samples; {}",
            most(answer)
        ),
        (true, true) => {
            let here = setup(answer, answer.hosts, devices);
            format!("{accelerators} {accelerator} on {here}: {au}; {}", range_of_most(answer))
        }
        (true, false) => format!("{}; {}", missed(answer, &au), most(answer)),
    };
    let memory = ByteSize(answer.host_memory_bytes);
    let memory = match answer.host_memory_assumed {
        true => format!("assuming {memory} of memory per host (set --host memory=)"),
        false => format!("for {memory} of memory per host"),
    };
    let unlike = match answer.not_validated.as_slice() {
        [] => String::new(),
        kinds => format!(", not validated ({})", kinds.join(", ")),
    };
    format!("{workload}: {verdict}; predicted, not measured{unlike}, {memory}")
}

/// How the requested number misses the threshold, and its needs.
fn missed(answer: &SizingAnswer, au: &str) -> String {
    let asked = format!("{} {}", answer.accelerators, answer.accelerator);
    match (&answer.need.at, answer.need.tried_devices) {
        (Some(at), _) => format!("{asked} need {}", setup(answer, at.hosts, at.devices)),
        (None, Some(tried)) => {
            let tried = counted(u64::from(tried), unit(answer));
            let hosts = answer.need.tried_hosts.unwrap_or(answer.hosts);
            let hosts = counted(u64::from(hosts), "host");
            format!("{asked} have {au}; up to {tried} on {hosts} are not enough")
        }
        (None, None) => format!("{asked} have {au}"),
    }
}

/// Hosts with their storage: `3 hosts with 4 drives`.
fn setup(answer: &SizingAnswer, hosts: u32, devices: u32) -> String {
    let model = &answer.storage_model;
    let storage = match (&model.surface, devices) {
        (Some(_), _) => "the measured storage".to_string(),
        (None, 1) if model.has_objects() => "this object store".to_string(),
        (None, devices) => counted(u64::from(devices), unit(answer)),
    };
    let each = if model.is_per_host && hosts > 1 { " each" } else { "" };
    format!("{} with {storage}{each}", counted(u64::from(hosts), "host"))
}

/// The largest number of accelerators, and the hosts and storage that feed it.
fn most(answer: &SizingAnswer) -> String {
    let largest = answer.rows.iter().find(|row| row.kind == RowKind::Largest);
    let hosts = largest.map_or(answer.hosts, |row| row.at.hosts);
    let verb = if hosts == 1 { "feeds" } else { "feed" };
    let here = setup(answer, hosts, answer.storage_model.devices);
    format!("{here} {verb} {}", range_of_most(answer))
}

/// `at most 7 h100 (range 6 to 9, limited by storage)`, with the figure that would narrow it.
fn range_of_most(answer: &SizingAnswer) -> String {
    let SizingAnswer { accelerator, largest_accelerators: largest, .. } = answer;
    let [low, high] = answer.range.accelerators;
    let most = match *largest {
        0 => format!("not even 1 {accelerator}"),
        MAX_ACCELERATORS.. => return format!("{largest} {accelerator} or more"),
        largest => format!("at most {largest} {accelerator}"),
    };
    let limit = match limit_in_words(answer, answer.search_limited_by, answer.search_storage_part) {
        limit if limit == "-" => String::new(),
        limit => format!(", limited by {limit}"),
    };
    let left = answer.range.with_host_rate(*largest).zip(answer.host_read_bytes_per_second);
    let missing = left.map_or(String::new(), |([low, high], rate)| {
        let rate = ByteSize(rate as u64);
        format!("; set --host read=: with the assumed {rate}/s, {low} to {high}")
    });
    format!("{most} (range {low} to {high}{limit}{missing})")
}

/// The rows that answer the question, and the facts that they depend on.
pub(super) fn section(answer: &SizingAnswer) -> Section {
    let model = &answer.storage_model;
    let per_host = if model.is_per_host { " per host" } else { "" };
    let storage = match &model.surface {
        Some(_) => "measured storage".to_string(),
        None => {
            let devices = counted(u64::from(model.devices), unit(answer));
            format!("{devices} ({}){per_host}", rate(model.read_bytes_per_second()))
        }
    };
    Section {
        title: format!(
            "Predicted: {} on {}, edition {}; {storage}",
            answer.workload,
            answer.accelerator,
            answer.profile.edition()
        ),
        table: Some(rows(answer)),
        facts: facts(answer),
        ..Section::default()
    }
}

/// Bytes per second as on a data sheet: `14.5 GB/s`.
fn rate(bytes_per_second: f64) -> String {
    let (value, unit) = match bytes_per_second {
        large if large >= 1e9 => (large / 1e9, "GB/s"),
        small => (small / 1e6, "MB/s"),
    };
    format!("{} {unit}", format!("{value:.1}").trim_end_matches(".0"))
}

fn rows(answer: &SizingAnswer) -> Table {
    let per_host = if answer.storage_model.is_per_host { " each" } else { "" };
    let kind = |row: &AnswerRow| match row.kind {
        RowKind::Asked if !answer.asked => "only 1".to_string(),
        RowKind::Asked => "as asked".to_string(),
        RowKind::Largest => "maximum".to_string(),
        RowKind::Needed => format!("needed for {}", answer.accelerators),
    };
    let gib = |at: &AtCount| Quantity::higher(at.mib_per_second / 1024.0, "GiB/s");
    Table::of(
        &answer.rows,
        |row| kind(row),
        vec![
            word("", 0, |row: &&AnswerRow| kind(row)),
            number("accelerators", 0, |row: &&AnswerRow| row.at.accelerators),
            number("hosts", 0, |row: &&AnswerRow| row.at.hosts),
            number(&format!("{}s{per_host}", unit(answer)), 0, |row: &&AnswerRow| row.at.devices)
                .when(answer.storage_model.surface.is_none()),
            number("AU %", 0, |row: &&AnswerRow| Quantity::higher(row.at.au_percent, "%")),
            number("GiB/s", 0, |row: &&AnswerRow| gib(&row.at)),
            word("limited by", 0, |row: &&AnswerRow| limited(answer, &row.at)),
        ],
    )
}

fn facts(answer: &SizingAnswer) -> Facts {
    let mut facts = Facts::default();
    facts.0.extend(limits(answer).map(|words| ("limit".to_string(), words)));
    if reads_less(answer.mib_per_second, answer.read_mib_per_second) {
        let read = short(answer.read_mib_per_second / 1024.0);
        let words = format!("{read} GiB/s; the table counts whole records");
        facts.add("reads", words);
    }
    if let Some(client) = &answer.client {
        facts.add("client", client);
    }
    if let Some(causes) = ends(answer) {
        facts.add("range", causes);
    }
    facts.add("dataset", dataset(answer));
    if let Some(checkpoint) = answer.checkpoint.as_ref().filter(|one| one.asked) {
        facts.add("checkpoint", times(checkpoint));
    }
    facts.add("error", &answer.model_error);
    facts
}

/// The limit, and whether storage could feed more; `None` if there is none.
fn limits(answer: &SizingAnswer) -> Option<String> {
    let largest = answer.largest_accelerators;
    let more = match answer.storage_alone_accelerators {
        _ if !answer.is_lower_bound => String::new(),
        _ if largest == 0 => "; storage could feed more".to_string(),
        alone if alone > largest => {
            format!("; {largest} is a lower bound for storage, which alone feeds {alone}")
        }
        _ => format!("; {largest} is a lower bound for storage"),
    };
    let limit = match answer.limited_by {
        LimitedBy::Storage => limit_of_storage(answer),
        LimitedBy::Client if largest >= MAX_ACCELERATORS => return None,
        LimitedBy::Client if answer.client.is_some() => "the client's overhead".to_string(),
        LimitedBy::Client if answer.hosts_are_full => {
            "the hosts have no room for more (--host accelerators=)".to_string()
        }
        LimitedBy::Client => match answer.host_read_bytes_per_second {
            Some(rate) => {
                let rate = ByteSize(rate as u64);
                format!("a host reads at most {rate}/s through its page cache (--host read=)")
            }
            None => "the hosts".to_string(),
        },
        LimitedBy::Memory => "most bytes come from the hosts' page caches".to_string(),
        LimitedBy::Barrier => "accelerators wait for each other at the barrier".to_string(),
        LimitedBy::Dataset => "the dataset has too few files for more".to_string(),
        LimitedBy::Nothing => return None,
    };
    Some(match answer.asked || largest == 0 || answer.hosts_are_full {
        true => format!("{limit}{more}"),
        false => format!("of 1 more: {limit}{more}"),
    })
}

fn limit_of_storage(answer: &SizingAnswer) -> String {
    let (unit, storage) = (unit(answer), &answer.storage_model);
    let part = match answer.storage_part {
        Some(StoragePart::Link) => "the network link of each host",
        Some(StoragePart::Connections) => "the connections of each host: set more connections=",
        Some(StoragePart::Latency) if storage.connections.is_some() => {
            "latency and bandwidth of a connection: more reader.read_threads may help"
        }
        Some(StoragePart::Latency) if storage.has_objects() => {
            "latency at this number of reads in flight: more reader.read_threads may help"
        }
        Some(StoragePart::Latency) => {
            "latency at this number of reads in flight: more reader.read_threads or readahead= may help"
        }
        Some(StoragePart::Devices) | None => {
            return match storage.surface {
                Some(_) => "the measured storage".to_string(),
                None => format!("bandwidth or IOPS of the {unit}s"),
            };
        }
    };
    format!("{part}; more {unit}s do not help")
}

/// The causes of both ends of the range, if they differ from the likely number.
fn ends(answer: &SizingAnswer) -> Option<String> {
    let likely = answer.largest_accelerators;
    let of = |end: u32| {
        let mut causes = answer.range.causes.iter();
        let cause = causes.find(|other| other.largest_accelerators == end && end != likely)?;
        Some(format!("{end} {}", cause.assumption))
    };
    let ends: Vec<String> = answer.range.accelerators.into_iter().filter_map(of).collect();
    (!ends.is_empty()).then(|| ends.join("; "))
}

fn dataset(answer: &SizingAnswer) -> String {
    let asked = (answer.dataset, answer.run_seconds);
    let (size, run_seconds) = answer.need.run.unwrap_or(asked);
    let hosts = answer.need.at.map_or(answer.hosts, |at| at.hosts);
    let hosts = counted(u64::from(hosts), "host");
    let because = match size.binding {
        Binding::Memory => format!("{MEMORY_MULTIPLE} times the memory of {hosts}"),
        Binding::Steps => format!("{MIN_STEPS} steps per epoch"),
    };
    format!(
        "{} in {} files ({because}); one run on {hosts} lasts {}",
        ByteSize(size.bytes),
        thousands(size.files),
        format_duration(run_seconds)
    )
}
