//! The standard table before it is drawn: title, header, rows and notes as plain text.

use stormlp_model::matrix::{CellStatus, MatrixPlan, MatrixReport, Measurement, Span};
use stormlp_model::report::Ending;
use stormlp_model::transport::{DeviceId, EngineChoice};
use stormlp_model::units::format_duration;

use super::View;
use super::compare;
use super::group::{Group, groups};
use super::numbers::{gib_per_second, percent, short, size};

/// A table of plain text.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    /// Lines above the table.
    pub(super) title: Vec<String>,
    /// Names of the columns.
    pub(super) header: Vec<String>,
    /// The rows.
    pub(super) rows: Vec<Vec<String>>,
    /// How many columns from the left are words; the others are numbers.
    pub(super) word_columns: usize,
    /// Numbered notes that rows refer to.
    pub(super) footnotes: Vec<String>,
    /// Lines below the table.
    pub(super) notes: Vec<String>,
}

impl Sheet {
    /// The mark of a footnote; the same text gets the same mark.
    pub(super) fn footnote(&mut self, text: String) -> String {
        let known = self.footnotes.iter().position(|note| *note == text);
        let index = known.unwrap_or_else(|| {
            self.footnotes.push(text);
            self.footnotes.len() - 1
        });
        format!("[{}]", index + 1)
    }
}

/// The title of a matrix: what was measured, on what, ending in what memory.
pub(super) fn title(report: &MatrixReport) -> Vec<String> {
    let plan = &report.plan;
    let span = match plan.span {
        Span::Seconds(seconds) => format!("{} a cell", format_duration(seconds)),
        Span::Passes(1) => "one pass over the files a cell".to_string(),
        Span::Passes(passes) => format!("{passes} passes over the files a cell"),
    };
    let stopped = match report.ending {
        Ending::Stopped => ", stopped by the user",
        _ => "",
    };
    vec![
        format!(
            "{} on {} (Linux {}), {}",
            plan.name, report.head.host.hostname, report.head.host.kernel, report.head.started_at
        ),
        format!(
            "{}, page cache {}, {span}, engine {}{stopped}",
            files_words(plan),
            plan.cache.name(),
            engine_words(plan)
        ),
        format!("accelerator memory: {}", memory_words(report)),
    ]
}

/// The engine of the CPU's paths, and whether it was left to stormlp.
pub(super) fn engine_words(plan: &MatrixPlan) -> String {
    match plan.engine_asked {
        EngineChoice::Auto => format!("{} (auto)", plan.engine),
        _ => plan.engine.to_string(),
    }
}

/// The files of a plan: how many, how large, where.
pub(super) fn files_words(plan: &MatrixPlan) -> String {
    let bytes: u64 = plan
        .files
        .iter()
        .fold(0, |sum, f| sum.saturating_add(f.bytes));
    let places: Vec<String> = match plan.folders.is_empty() {
        false => plan.folders.iter().map(|f| f.path.to_string()).collect(),
        true => plan
            .files
            .iter()
            .map(|f| f.path.display().to_string())
            .collect(),
    };
    let files = match plan.files.len() {
        1 => "1 file".to_string(),
        count => format!("{count} files"),
    };
    format!("{files}, {} in all, in {}", size(bytes), places.join(", "))
}

/// What transfers ended in, as the cells say; as the plan says before any has run.
fn memory_words(report: &MatrixReport) -> String {
    if !uses_accelerator(&report.plan) {
        return "not used by these paths".to_string();
    }
    let mut names: Vec<String> = Vec::new();
    let accelerated =
        (report.results.cells.iter()).filter(|c| c.requested_path.ends_in_accelerator());
    for numbers in accelerated.filter_map(|cell| cell.measurement.as_ref()) {
        let mut name = numbers.memory.clone();
        if numbers.memory_emulated && !name.contains("emulated") {
            name.push_str(" (emulated)");
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        names.extend(report.plan.memory.devices.iter().map(device_words));
    }
    names.join(", ")
}

/// Whether any path of a plan ends in accelerator memory.
pub(super) fn uses_accelerator(plan: &MatrixPlan) -> bool {
    plan.cells
        .iter()
        .any(|cell| cell.path.ends_in_accelerator())
}

/// A device, the stand-in named as such.
pub(super) fn device_words(device: &DeviceId) -> String {
    match device {
        DeviceId::Host => "host memory (emulated)".to_string(),
        DeviceId::Cuda(_) => device.to_string(),
    }
}

/// The standard table.
pub(super) fn standard(view: &View<'_>) -> Sheet {
    let mut sheet = Sheet {
        title: title(view.report),
        word_columns: 4,
        ..Sheet::default()
    };
    let header = [
        "path",
        "memory",
        "op",
        "I/O",
        "threads",
        "depth",
        "GiB/s",
        "IOPS",
        "mean µs",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "max µs",
        "CPU s/GiB",
        "cached",
    ];
    sheet.header = header.map(str::to_string).to_vec();
    if view.baseline.is_some() {
        sheet.header.push("against baseline".to_string());
    }
    let groups = groups(view.report);
    for group in &groups {
        let mut row = row(group, view.report.plan.span, &mut sheet);
        if let Some(baseline) = view.baseline {
            row.push(compare::against(group, baseline));
        }
        sheet.rows.push(row);
    }
    sheet.notes.extend(evidence_notes(&groups));
    sheet.notes.extend(verification_notes(&groups));
    sheet.notes.extend(warning_notes(view.report));
    sheet
        .notes
        .extend(view.baseline.and_then(|b| compare::caveat(view.report, b)));
    sheet
        .notes
        .extend(compare::verdict(&view.report.plan, &groups));
    sheet
}

fn row(group: &Group<'_>, span: Span, sheet: &mut Sheet) -> Vec<String> {
    let combination = group.key.combination;
    let mut row = vec![
        group.path_words(),
        memory_column(group),
        combination.op.to_string(),
        combination.io_size(),
        combination.threads.to_string(),
        combination.queue_depth.to_string(),
    ];
    let Some(throughput) = group.throughput() else {
        row.push(missing(group, sheet));
        return row;
    };
    let mut rate = match throughput.deviation {
        Some(deviation) => format!(
            "{} ± {}",
            gib_per_second(throughput.mean),
            gib_per_second(deviation)
        ),
        None => gib_per_second(throughput.mean),
    };
    if group
        .cells
        .iter()
        .any(|cell| cell.status == CellStatus::Failed)
    {
        rate = format!("{rate} {}", missing(group, sheet));
    }
    for numbers in group.results() {
        if let Some(text) = cut_short(numbers, span) {
            rate = format!("{rate} {}", sheet.footnote(text));
        }
    }
    row.push(rate);
    let mean = |number: fn(&Measurement) -> f64| {
        group
            .spread(number)
            .map_or(String::new(), |spread| short(spread.mean))
    };
    row.push(mean(|m| m.iops));
    row.push(mean(|m| m.latency_us.mean));
    row.push(mean(|m| m.latency_us.p50));
    row.push(mean(|m| m.latency_us.p99));
    row.push(mean(|m| m.latency_us.p999));
    row.push(mean(|m| m.latency_us.max));
    row.push(mean(|m| m.cpu_seconds_per_gib));
    row.push(cached(group));
    row
}

/// That a cell is shorter than planned, because the user stopped the run during it.
pub(super) fn cut_short(numbers: &Measurement, span: Span) -> Option<String> {
    let done = numbers.duration_seconds;
    numbers.interrupted.then(|| match span {
        Span::Seconds(planned) => format!("cut short by the user: {done:.2} of {planned} s"),
        Span::Passes(_) => format!("cut short by the user after {done:.2} s, within its passes"),
    })
}

/// Where the bytes of a path end.
fn memory_column(group: &Group<'_>) -> String {
    if !group.key.path.ends_in_accelerator() {
        return "host".to_string();
    }
    match group.results().first() {
        Some(numbers) if numbers.memory_emulated => "emulated".to_string(),
        Some(_) => "device".to_string(),
        None => String::new(),
    }
}

/// Share of the files in the page cache before the cell and after it.
fn cached(group: &Group<'_>) -> String {
    let results = group.results();
    let Some(numbers) = results.first() else {
        return String::new();
    };
    match (numbers.page_cache_share, numbers.page_cache_share_after) {
        (Some(before), Some(after)) => format!("{} → {}", percent(before), percent(after)),
        _ => "-".to_string(),
    }
}

/// What stands in the place of a number that was not measured, with a footnote that says why.
fn missing(group: &Group<'_>, sheet: &mut Sheet) -> String {
    let Some(cell) = group
        .cells
        .iter()
        .find(|cell| cell.status != CellStatus::Ok)
    else {
        return "n/a".to_string();
    };
    let reason = cell.reason.as_deref().unwrap_or("no reason was recorded");
    let mut text = format!("{}: {reason}", cell.requested_path);
    if let Some(remedy) = cell.remedy.as_deref().filter(|remedy| !remedy.is_empty()) {
        text.push_str(&format!("; {remedy}"));
    }
    let word = match cell.status {
        CellStatus::Failed => "failed",
        CellStatus::Ok | CellStatus::Unavailable => "n/a",
    };
    format!("{word} {}", sheet.footnote(text))
}

/// What proves the paths that ran, each proof once.
pub(super) fn evidence_notes(groups: &[Group<'_>]) -> Vec<String> {
    let mut notes = Vec::new();
    for group in groups {
        for cell in group.cells.iter().filter(|cell| cell.result().is_some()) {
            if let Some(evidence) = &cell.evidence {
                let note = format!("{}: {}", group.path_words(), evidence.summary);
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
    }
    notes
}

fn verification_notes(groups: &[Group<'_>]) -> Vec<String> {
    let cells = groups.iter().flat_map(|group| &group.cells);
    let checked: u64 = (cells.filter(|cell| cell.result().is_some()))
        .filter_map(|cell| cell.verification.as_ref())
        .map(|verification| verification.checked_bytes)
        .sum();
    match checked {
        0 => Vec::new(),
        bytes => vec![format!(
            "verified: {} read and compared, all as written",
            size(bytes)
        )],
    }
}

/// The warnings of the report and of its cells, each fact once.
pub(super) fn warning_notes(report: &MatrixReport) -> Vec<String> {
    let of_cells = report.results.cells.iter().flat_map(|cell| {
        let place = format!("{} {}", cell.requested_path, cell.op);
        cell.warnings
            .iter()
            .map(move |warning| (Some(place.clone()), warning))
    });
    let of_report = report.warnings.iter().map(|warning| (None, warning));
    let mut notes: Vec<String> = Vec::new();
    for (place, warning) in of_report.chain(of_cells) {
        let note = match place {
            Some(place) => format!("warning: {place}: {warning}"),
            None => format!("warning: {warning}"),
        };
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}
