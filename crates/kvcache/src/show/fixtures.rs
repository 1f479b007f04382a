//! Reports for tests.

use stormlp_core::facts::{Availability, HostFacts};
use stormlp_core::histogram::LatencyHistogram;
use stormlp_core::knee::KneeLimit;
use stormlp_core::largest::{RunKind, Search};
use stormlp_core::location::Location;
use stormlp_core::report::{Ending, Head, NamedSeries, ReportKind, Series};
use stormlp_core::units::GIB;
use stormlp_show::document::Document;

use super::plan::{DryRun, dry_run};
use super::run::document;
use crate::plan::{
    Class, FindServers, KvcacheFacts, KvcachePlan, KvcacheRequest, Profile, ServingRequest,
    TriedServers, resolve,
};
use crate::report::{
    BytesOfDevices, ClassResult, Evictions, FirstToken, KvcacheReport, KvcacheResults, Lookups,
    ObjectsMoved, PrefixLoads, PromptsServed, SampledResidency, TimesMs, TrialResult, TrialTimes,
    gib_per_second, summarise,
};

/// The machine in the reports.
fn host() -> HostFacts {
    HostFacts { hostname: "client".to_string(), ..HostFacts::fixture() }
}

/// The plan of a request on a folder of 1 TiB.
pub fn plan(request: KvcacheRequest) -> KvcachePlan {
    let facts = KvcacheFacts {
        writable: Availability::Available,
        free_bytes: Some(1 << 40),
        left_objects: 0,
        left_bytes: 0,
        foreign: None,
        file_system: Some("xfs".to_string()),
        trace: None,
    };
    let request = KvcacheRequest { folder: Some(Location::from("objects")), ..request };
    resolve(&request, &host(), Some(&facts), &[]).plan.expect("a plan")
}

fn histogram(ms: u64) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new();
    (1..=1000).for_each(|n| histogram.record_ns(n * ms * 2000));
    histogram
}

/// A trial with rates around `rate` GiB/s.
fn trial(pass: u32, trial: u32, rate: u64) -> TrialResult {
    let moved = |bytes: u64| ObjectsMoved {
        objects: bytes / GIB,
        bytes,
        late_objects: 20,
        late_bytes: 20 * GIB,
    };
    let (read, written) = (moved(300 * rate * GIB), moved(60 * rate * GIB));
    let times = |ms| TimesMs::of(&histogram(ms));
    let class = |class, offered, served| ClassResult { class, offered, served, served_late: 10 };
    let served = |share: u64| 1000 - 3 * 10 - share;
    TrialResult {
        pass,
        trial,
        started_at_seconds: f64::from(pass * 900 + (trial - 1) * 300),
        window_seconds: 300.0,
        total_seconds: 303.5,
        read,
        written,
        read_gib_per_second: gib_per_second(read.bytes, 300.0),
        write_gib_per_second: gib_per_second(written.bytes, 300.0),
        tokens: 60_000,
        late_tokens: 1000,
        tokens_per_second: 200.0,
        classes: vec![
            class(Class::Interactive, 15_600, served(30)),
            class(Class::Responsive, 40_000, 25),
            class(Class::Batch, 89_000, 5),
        ],
        replayed: None,
        prompts: None,
        times_ms: TrialTimes {
            read: times(200),
            write: times(100),
            fsync: times(800),
            persist: times(900),
            slot_wait: times(1500),
            queue_wait: times(9000),
            storage: times(4000),
            request: times(13_000),
        },
        lookups: Lookups {
            other_turn_hits: 3,
            other_turn_misses: 40,
            own_hits: 800,
            ..Lookups::default()
        },
        evictions: Evictions { demoted: 0, deleted: 12 },
        residency: Some(SampledResidency { objects: 50, before_drop: 0.4, after_drop: 0.001 }),
        device: Some(BytesOfDevices {
            read_bytes: read.all_bytes(),
            written_bytes: written.all_bytes(),
        }),
        cpu_user_seconds: 20.0,
        cpu_system_seconds: 160.0,
        requests: None,
        hosts: Vec::new(),
    }
}

/// A report of these trials.
fn report_of(plan: KvcachePlan, trials: Vec<TrialResult>) -> KvcacheReport {
    let head = Head::new(
        ReportKind::Kvcache,
        "stormlp kvcache".to_string(),
        "2026-01-31T23:59:55Z".to_string(),
        host(),
    );
    let series = trials.iter().map(|trial| NamedSeries {
        name: format!("{} trial {}", plan.part_name(trial.pass as usize), trial.trial),
        series: Series {
            interval_seconds: 25.0,
            interval_bytes: (0..12).map(|n| (n + 20) << 30).collect(),
            ..Series::default()
        },
    });
    let series = series.collect();
    let histograms = histogram(200).named("option 1 read").into_iter().collect();
    let results = KvcacheResults {
        passes: summarise(&trials, plan.passes.len()),
        trials,
        elapsed_seconds: 3600.0,
        noise_cpu_seconds: 0.45,
        peak_rss_bytes: 600 << 20,
        group: None,
        find_max: None,
    };
    KvcacheReport {
        ending: Ending::Complete,
        series,
        histograms,
        ..KvcacheReport::new(head, plan, results)
    }
}

/// A run of two trials.
pub fn report() -> KvcacheReport {
    let plan = plan(KvcacheRequest { trials: Some(2), ..KvcacheRequest::default() });
    report_of(plan, vec![trial(0, 1, 3), trial(0, 2, 4)])
}

/// A trial of a serving engine that loaded prefixes.
pub fn serving() -> KvcacheReport {
    let serving =
        ServingRequest { prefill_tokens_per_second: Some(20_000.0), ..ServingRequest::default() };
    let profile = Some(Profile::Serving);
    let plan = plan(KvcacheRequest { profile, serving, ..KvcacheRequest::default() });
    let load = plan.serving.clone().expect("the load of a serving engine");
    let (mut trial, mut prompts) = (trial(0, 1, 3), PromptsServed::default());
    for (nth, tokens) in load.prefix_tokens.iter().enumerate() {
        let load_ms = TimesMs::of(&histogram(20 << (2 * nth))).expect("times");
        let tokens_of_all = load_ms.count * u64::from(*tokens);
        let bytes = tokens_of_all / u64::from(load.chunk_tokens) * load.chunk_bytes;
        prompts.loads.push(PrefixLoads {
            prefix_tokens: *tokens,
            tokens: tokens_of_all,
            bytes,
            load_ms,
            gib_per_second: gib_per_second(bytes, load_ms.mean / 1e3 * load_ms.count as f64),
            first_token: Some(FirstToken::of(load_ms, f64::from(*tokens), &load, 20_000.0)),
        });
        prompts.tokens += tokens_of_all * 10 / 9;
        prompts.loaded_tokens += tokens_of_all;
    }
    (prompts.begun, prompts.served, prompts.served_late) = (3000, 992, 8);
    (prompts.dropped, prompts.waiting) = (12, 3);
    trial.classes.clear();
    (trial.times_ms.fsync, trial.times_ms.persist, trial.times_ms.slot_wait) = (None, None, None);
    (trial.tokens, trial.late_tokens, trial.tokens_per_second) = (0, 0, 0.0);
    trial.prompts = Some(prompts);
    report_of(plan, vec![trial])
}

/// A search for the most servers.
pub fn find_max() -> KvcacheReport {
    let mut report = serving();
    let mut find = FindServers::begun(1);
    let mut search = Search::new(8, 500, 1);
    while let Some((servers, run)) = search.next() {
        // Storage that takes 100 ms for each server.
        let load_ms = 100.0 * f64::from(servers);
        let limited_by = Some(KneeLimit::Storage);
        search.tell(find.take(TriedServers {
            servers,
            run,
            meets: load_ms <= 1000.0,
            prefix_tokens: 8192,
            load_ms,
            is_slowest: false,
            computing_ms: 1000.0,
            dropped_percent: 0.5,
            prompts_per_second: 40.0,
            loading: f64::from(servers) - 2.0,
            read_gib_per_second: 3.2,
            limited_by,
            others_cpus: None,
            seconds: if run == RunKind::Full { 301.5 } else { 31.5 },
        }));
        find.conclude(&search);
    }
    find.search_seconds = 744.0;
    if let Some(load) = &mut report.plan.serving {
        load.loaders = find.largest_servers;
    }
    report.plan.request.find_max = true;
    report.results.find_max = Some(find);
    report
}

/// A closed run, with nine trials.
fn closed() -> KvcacheReport {
    let plan = plan(KvcacheRequest { closed: true, ..KvcacheRequest::default() });
    let trials = (0..9).map(|nth| trial(nth / 3, nth % 3 + 1, u64::from(nth) + 2));
    report_of(plan, trials.collect())
}

/// Documents for the tests of every renderer.
pub fn samples() -> Vec<(&'static str, Document)> {
    let plan = self::plan(KvcacheRequest { closed: true, ..KvcacheRequest::default() });
    vec![
        ("kvcache", document(&report())),
        ("kvcache_closed", document(&closed())),
        ("kvcache_serving", document(&serving())),
        ("kvcache_find_max", document(&find_max())),
        ("kvcache_plan", dry_run(&DryRun { plan: &plan, problems: &[] })),
    ]
}
