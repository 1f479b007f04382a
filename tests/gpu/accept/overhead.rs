//! The overhead of stormlp over bare loops of the same calls, in pairs A B B A.

use serde_json::Value;

use crate::bytes::in_memory;
use crate::process::Ended;
use crate::report::Report;
use crate::scene::Scene;

/// Seconds of one measurement.
const SECONDS: f64 = 2.0;
/// stormlp may be this much slower.
const GOAL: f64 = 0.02;
/// The message of stormlp if cuFile rejects files in memory, as up to 1.15.
const REJECTED: &str = "cuFile rejects files in";

/// Comparisons that one matrix of stormlp measures.
struct Group {
    /// The bare loop, and stormlp's path.
    mode: &'static str,
    path: &'static str,
    sizes: &'static [u64],
    threads: &'static [u32],
    depths: &'static [u32],
    statistics: u32,
    /// Whether stormlp waits and counts as it does unless told otherwise; the bare loop waits in the
    /// same way.
    defaults: bool,
}

const K4: u64 = 4 << 10;
const M1: u64 = 1 << 20;

/// cuFile's calls: blocking, on streams, in batches.
const CUFILE: [Group; 6] = [
    group("sync", "gds", &[K4, M1], &[1, 8], &[1]),
    Group { defaults: true, ..group("sync", "gds", &[K4, M1], &[8], &[1]) },
    Group { statistics: 3, ..group("sync", "gds", &[K4, M1], &[8], &[1]) },
    group("async", "gds-async", &[M1], &[1], &[1, 8, 32]),
    group("async", "gds-async", &[K4], &[1], &[128]),
    group("batch", "gds-batch", &[K4, M1], &[1], &[32]),
];

/// A read into pinned memory and a copy to the GPU.
const COPIES: Group = group("copy", "cpu-gpu", &[K4, M1], &[1, 8], &[1]);

const fn group(
    mode: &'static str,
    path: &'static str,
    sizes: &'static [u64],
    threads: &'static [u32],
    depths: &'static [u32],
) -> Group {
    Group { mode, path, sizes, threads, depths, statistics: 0, defaults: false }
}

/// One comparison.
#[derive(Clone, Copy)]
struct Case {
    mode: &'static str,
    path: &'static str,
    size: u64,
    threads: u32,
    depth: u32,
    statistics: u32,
    defaults: bool,
}

impl Group {
    fn cases(&self) -> impl Iterator<Item = Case> + '_ {
        let threads = |size: u64| self.threads.iter().map(move |threads| (size, *threads));
        let pairs = self.sizes.iter().flat_map(move |size| threads(*size));
        pairs.flat_map(move |(size, threads)| {
            self.depths.iter().map(move |depth| Case {
                mode: self.mode,
                path: self.path,
                size,
                threads,
                depth: *depth,
                statistics: self.statistics,
                defaults: self.defaults,
            })
        })
    }

    fn words(&self, measure: &Measure<'_>) -> String {
        format!(
            "gds --dir {} --path {} --engine psync --io-size {} --threads {} --queue-depth {} \
             --duration {}s --file-size {} --cache as-is --format json",
            measure.folder,
            self.path,
            list(self.sizes),
            list(self.threads),
            list(self.depths),
            measure.seconds,
            measure.file_bytes
        )
    }
}

/// How measurements are made.
struct Measure<'a> {
    folder: &'a str,
    seconds: f64,
    file_bytes: u64,
    /// The ordinal of the GPU, -1 for host memory.
    device: i32,
}

impl Measure<'_> {
    /// The bare loop is measured twice, in one go.
    fn bare_words(&self, case: Case) -> String {
        format!(
            "{} {} {} {} {} {} {} {}",
            case.mode,
            self.folder,
            case.size,
            case.threads,
            case.depth,
            2.0 * self.seconds,
            case.statistics,
            self.device
        )
    }
}

/// Over cuFile.
pub(crate) fn cufile(scene: &Scene, report: &mut Report) {
    for group in &CUFILE {
        let settings = match group.defaults {
            true => String::new(),
            false => format!("--tune wait=spin --tune cufile-stats={}", group.statistics),
        };
        compare(scene, group, &settings, report);
    }
    on_host_memory(scene, report);
}

/// Over a bare copy.
pub(crate) fn copies(scene: &Scene, report: &mut Report) {
    compare(scene, &COPIES, "--tune wait=spin", report);
}

/// Both in turn.
fn compare(scene: &Scene, group: &Group, more: &str, report: &mut Report) {
    let folder = scene.folder("overhead").display().to_string();
    let measure = Measure {
        folder: &folder,
        seconds: if scene.emulated() { 0.3 } else { SECONDS },
        file_bytes: 256 << 20,
        device: 0,
    };
    let words = format!("{} --device cuda:0 {more}", group.words(&measure));
    let stormlp = || scene.stormlp(&words);
    let bare = |case| {
        let words = measure.bare_words(case);
        let mut command = scene.program("bare", "direct");
        if case.defaults {
            command.env("BARE_WAIT", "block");
        }
        let ended = scene.run(command.args(words.split_whitespace()));
        let name = to_text(case).replace([' ', ','], "-");
        scene.keep(&format!("bare-{name}.json"), &ended.stdout);
        ended
    };
    for (case, measured) in pairs(group, stormlp, bare) {
        judge(scene, case, report, measured);
    }
}

/// The real library on host memory, which needs no GPU.
fn on_host_memory(scene: &Scene, report: &mut Report) {
    let what = "real libcufile on host memory";
    if scene.real_library().is_none() {
        return report.skip(what, "there is no libcufile");
    }
    let folder = match in_memory(640 << 20) {
        Ok(folder) => folder,
        Err(why) => return report.skip(what, why),
    };
    let folder = folder.path().display().to_string();
    let measure = Measure { folder: &folder, seconds: 0.5, file_bytes: 64 << 20, device: -1 };
    let program = |name: &str, words: &str| match scene.on_host_memory(name) {
        Some(mut command) => scene.run(command.args(words.split_whitespace())),
        None => Ended::never("there is no libcufile"),
    };
    for group in [&CUFILE[0], &CUFILE[5]] {
        let words = format!("{} --device host --buffer-memory host", group.words(&measure));
        let stormlp = || program("stormlp", &words);
        let bare = |case| program("bare", &measure.bare_words(case));
        for (case, measured) in pairs(group, stormlp, bare) {
            let name = format!("{what}, {}", to_text(case));
            match measured {
                Ok(pair) => report.note(&name, pair.to_text()),
                Err(why) if why.contains(REJECTED) => report.skip(&name, why),
                Err(why) => report.fail(&name, why),
            }
        }
    }
}

/// Transfers a second of stormlp, before and after the bare loop, and of that.
#[derive(Debug, Clone, Copy)]
struct Pair {
    ours: [f64; 2],
    bare: f64,
}

/// The measurement, or why there is none.
type Compared = Result<Pair, String>;

/// Means of both, measured in the order A B B A: a matrix of stormlp, the bare loop of each of its
/// cells for twice the time, and the matrix again. A first, which also makes the files.
fn pairs(
    group: &Group,
    ours: impl Fn() -> Ended,
    bare: impl Fn(Case) -> Ended,
) -> Vec<(Case, Compared)> {
    let first = ours().json();
    let bare: Vec<_> = group.cases().map(|case| (case, bare(case))).collect();
    let last = ours().json();
    let of = |matrix: &Result<Value, String>, case| match matrix {
        Ok(matrix) => iops_of_cell(matrix, case),
        Err(why) => Err(format!("stormlp: {why}")),
    };
    let compared = bare.into_iter().map(|(case, bare)| {
        let ours = of(&first, case).and_then(|one| Ok([one, of(&last, case)?]));
        (case, ours.and_then(|ours| Ok(Pair { ours, bare: iops_of_bare(&bare)? })))
    });
    compared.collect()
}

fn iops_of_cell(matrix: &Value, case: Case) -> Result<f64, String> {
    let is = |cell: &&Value| {
        cell["io_size_bytes"] == case.size
            && cell["threads"] == case.threads
            && cell["queue_depth"] == case.depth
    };
    let cell = matrix["cells"].as_array().into_iter().flatten().find(is);
    let cell = cell.ok_or("stormlp: there is no such cell")?;
    let iops = cell["iops"].as_f64();
    iops.ok_or_else(|| format!("stormlp: {}", cell["reason"]))
}

fn iops_of_bare(ended: &Ended) -> Result<f64, String> {
    let told = ended.json().map_err(|why| format!("the bare loop: {why}"))?;
    let iops = told["iops"].as_f64();
    iops.ok_or("the bare loop: no figure".to_string())
}

fn list<T: ToString>(values: &[T]) -> String {
    let words: Vec<String> = values.iter().map(ToString::to_string).collect();
    words.join(",")
}

fn to_text(case: Case) -> String {
    format!(
        "{} {} KiB, {} threads, depth {}, {}",
        case.path,
        case.size >> 10,
        case.threads,
        case.depth,
        match case.defaults {
            true => "default settings".to_string(),
            false => format!("statistics {}", case.statistics),
        }
    )
}

impl Pair {
    fn mean(self) -> f64 {
        (self.ours[0] + self.ours[1]) / 2.0
    }

    /// Whether the cost is within the goal; `None` if stormlp's two figures lie on both sides of the
    /// goal, so that the storage alone may make the difference.
    fn is_within_goal(self) -> Option<bool> {
        let goal = self.bare * (1.0 - GOAL);
        let within = self.ours.map(|ours| ours >= goal);
        (within[0] == within[1]).then_some(within[0])
    }

    fn to_text(self) -> String {
        let cost = 100.0 * (1.0 - self.mean() / self.bare);
        let [first, last] = self.ours;
        format!(
            "{:.0} ({first:.0}, {last:.0}) against {:.0} transfers/s of the bare loop: {cost:+.1} %",
            self.mean(),
            self.bare
        )
    }
}

fn judge(scene: &Scene, case: Case, report: &mut Report, measured: Compared) {
    let name = to_text(case);
    let pair = match measured {
        Err(why) => return report.fail(&name, why),
        Ok(pair) => pair,
    };
    let words = pair.to_text();
    match pair.is_within_goal() {
        _ if scene.emulated() => report.note(&name, words),
        Some(true) => report.pass(&name, words),
        Some(false) => report.miss(&name, words),
        None => report.note(&name, format!("{words}; too noisy to judge")),
    }
}
