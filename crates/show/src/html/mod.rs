//! Reports as a single self-contained page, in light or dark mode, for print and mobile. It
//! contains no scripts and blocks all.

mod write;

use std::fmt::Display;

use stormlp_core::report::Head;
use stormlp_core::tag;
use stormlp_core::units::{ByteSize, counted};
use stormlp_core::warning::Warning;

use self::write::Text;
use crate::chart::{self, Chart, Form, Group, dark_rules};
use crate::document::{Document, Facts};
use crate::shown::Shown;
use crate::storage;
use crate::xml::escaped;

/// The style of a page, except for chart colours.
const STYLE: &str = include_str!("style.css");
/// Maximum number of charts of a group shown without expanding.
const SHOWN_AT_ONCE: usize = 12;

/// Content of one report on a page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sheet {
    /// The document shown by all other outputs.
    document: Document,
    groups: Vec<Group>,
    /// Its source: `gds on node1, 2026-11-21T07:25:00Z`.
    origin: String,
    command: String,
    /// The settings that define the work.
    settings: Facts,
    machine: Facts,
    /// Whether there was no run: known facts come first then.
    is_answer: bool,
}

impl Sheet {
    /// The content of a report on a page; `document` is the one of other outputs.
    pub fn new(report: &dyn Shown, document: Document) -> Self {
        let head = report.head();
        let (kind, host) = (head.kind.name(), &head.host.hostname);
        Self {
            document,
            groups: report.charts(),
            origin: format!("stormlp {kind} on {host}, {}", head.started_at),
            command: head.command.clone(),
            settings: report.work().facts(),
            machine: machine(head),
            is_answer: false,
        }
    }

    /// An answer of `stormlp name` without a report, with its charts.
    pub fn of_answer(name: &str, document: Document, groups: Vec<Group>) -> Self {
        let origin = format!("stormlp {name}");
        Self { document, groups, origin, is_answer: true, ..Self::default() }
    }

    /// Adds the command, the host and the time that made it, as in reports.
    #[must_use]
    pub fn made_by(mut self, command: impl Display, host: &str, at: &str) -> Self {
        self.origin.push_str(&format!(" on {host}, {at}"));
        self.command = command.to_string();
        self
    }
}

impl From<Document> for Sheet {
    /// A document without charts.
    fn from(document: Document) -> Self {
        Self { document, ..Self::default() }
    }
}

/// The first chart of a report, which answers its question, as a standalone file.
///
/// # Errors
/// If no part of the report can be drawn, with the reasons.
pub fn lead(report: &dyn Shown) -> Result<String, String> {
    let groups = report.charts();
    match groups.iter().flat_map(|group| &group.charts).next() {
        Some(chart) => chart::svg(chart, Form::Alone),
        None => {
            let absent: Vec<&str> = groups.iter().flat_map(|g| &g.absent).map(|s| &**s).collect();
            Err(format!("the report contains no data for a chart: {}", absent.join("; ")))
        }
    }
}

/// One page with all `sheets` side by side.
pub fn page(sheets: Vec<Sheet>) -> String {
    let title = match sheets.as_slice() {
        [only] => only.document.headline.clone(),
        several => format!("{} reports of stormlp", several.len()),
    };
    let mut text = Text::default();
    let colours = format!("@media screen and (prefers-color-scheme:dark){{{}}}", dark_rules());
    text.push(&format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{STYLE}{colours}\n</style>\n</head>\n<body>\n<main>\n",
        escaped(&title)
    ));
    let level = match sheets.as_slice() {
        [_] => 1,
        _ => {
            text.element("h1", "class=\"all\"", &title);
            text.push("<div class=\"sheets\">\n");
            2
        }
    };
    for (nth, sheet) in (1..).zip(&sheets) {
        let mut page = HtmlPage { text: &mut text, level, nth };
        page.sheet(sheet);
    }
    if level == 2 {
        text.push("</div>\n");
    }
    text.push("</main>\n</body>\n</html>\n");
    text.0
}

/// Machine facts for the page.
fn machine(head: &Head) -> Facts {
    let host = &head.host;
    let mut facts = Facts::default();
    facts.add("host", &host.hostname);
    facts.add("kernel", format!("Linux {}", host.kernel));
    facts.add("CPU", format!("{} of {}", host.cpus, host.cpu_model));
    facts.add("memory", ByteSize(host.memory_bytes));
    if let Some(limit) = host.memory_limit_bytes {
        facts.add("memory limit", ByteSize(limit));
    }
    for gpu in &host.accelerators {
        let address = gpu.pci_address.as_deref().unwrap_or("address unknown");
        facts.add("accelerator", format!("{}: {} ({address})", gpu.index, gpu.name));
    }
    for one in &host.storage {
        if let Some(options) = &one.mount_options {
            let file_system = one.file_system.as_deref().unwrap_or("unknown file system");
            facts.add("mount", format!("{file_system}, {options}"));
        }
    }
    storage::queues(host, &mut facts);
    let build = if host.release_build { "release" } else { "debug" };
    facts.add("stormlp", format!("{} ({build} build)", host.stormlp_version));
    facts.add("began", &head.started_at);
    facts.add("ended", head.ended_at.as_deref().unwrap_or("not known"));
    if !head.tags.is_empty() {
        facts.add("tags", tag::words(&head.tags));
    }
    facts
}

/// A part of a page under construction.
struct HtmlPage<'a> {
    text: &'a mut Text,
    /// Heading level; headings below are one level deeper.
    level: u8,
    /// Number of the sheet, from 1.
    nth: usize,
}

impl HtmlPage<'_> {
    fn sheet(&mut self, sheet: &Sheet) {
        let document = &sheet.document;
        self.text.push("<article>\n<header>\n");
        if !sheet.origin.is_empty() {
            self.text.element("p", "class=\"origin\"", &sheet.origin);
        }
        if let Some(mark) = &document.mark {
            self.text.element("p", "class=\"mark\"", mark);
        }
        self.text.element(&format!("h{}", self.level), "", &document.headline);
        self.text.list("class=\"caveat\"", &document.caveat);
        let mut facts = document.sections.iter().flat_map(|section| &section.facts.0);
        if let Some((_, verdict)) = facts.find(|(name, _)| name == "verdict") {
            self.text.element("p", "class=\"verdict\"", verdict);
        }
        self.warnings(&document.warnings.iter().map(Warning::to_string).collect::<Vec<_>>());
        self.text.push("</header>\n");
        if sheet.is_answer {
            self.facts("In short", &document.all_facts());
        }
        for group in &sheet.groups {
            self.group(group);
        }
        let mut first = "Results";
        for section in &document.sections {
            let summary = section.summary();
            let tables = section.table.iter().chain(&summary);
            if tables.clone().count() + section.facts.0.len() + section.lines.len() == 0 {
                continue;
            }
            let title = match section.title.as_str() {
                "" => std::mem::take(&mut first),
                title => title,
            };
            self.begin(title);
            let name = if title.is_empty() { "Results" } else { title };
            tables.for_each(|table| self.text.table(name, table));
            self.text.facts(&section.facts);
            self.text.list("", &section.lines);
            self.text.push("</section>\n");
        }
        if !sheet.is_answer {
            self.facts("Paths and evidence", &document.all_facts());
        }
        self.facts("Settings", &sheet.settings);
        self.facts("Machine", &sheet.machine);
        if !sheet.command.is_empty() {
            self.begin("Command");
            self.text.push("<pre tabindex=\"0\">");
            self.text.push(&escaped(&sheet.command));
            self.text.push("</pre>\n</section>\n");
        }
        self.text.push("</article>\n");
    }

    /// Opens a section with its title.
    fn begin(&mut self, title: &str) {
        self.text.push("<section>\n");
        if !title.is_empty() {
            self.text.element(&format!("h{}", self.level + 1), "", title);
        }
    }

    fn facts(&mut self, title: &str, facts: &Facts) {
        if !facts.0.is_empty() {
            self.begin(title);
            self.text.facts(facts);
            self.text.push("</section>\n");
        }
    }

    fn warnings(&mut self, warnings: &[String]) {
        if !warnings.is_empty() {
            let title = "What to know before trusting the numbers";
            self.text.push("<div class=\"warnings\">\n");
            self.text.element("p", "", title);
            self.text.list("", warnings);
            self.text.push("</div>\n");
        }
    }

    fn group(&mut self, group: &Group) {
        if group.charts.is_empty() && group.absent.is_empty() {
            return;
        }
        self.begin(&group.title);
        let shown = if group.is_folded { 0 } else { SHOWN_AT_ONCE };
        let (shown, folded) = group.charts.split_at(shown.min(group.charts.len()));
        self.charts(group, shown, 1);
        if !folded.is_empty() {
            let count = counted(folded.len() as u64, "chart");
            let more = if shown.is_empty() { "" } else { " more" };
            self.text.push("<details class=\"many\">\n");
            let words = count.replacen(' ', &format!("{more} "), 1);
            self.text.element("summary", "", &format!("{words}: {}", group.title));
            self.charts(group, folded, 1 + shown.len());
            self.text.push("</details>\n");
        }
        self.text.list("class=\"absent\"", &group.absent);
        self.text.push("</section>\n");
    }

    /// Some charts of a group, the first of them the `from`th.
    fn charts(&mut self, group: &Group, charts: &[Chart], from: usize) {
        if charts.is_empty() {
            return;
        }
        self.text.push("<div class=\"charts\">\n");
        for (nth, chart) in (from..).zip(charts) {
            self.chart(chart, &format!("{}, {nth}", group.title));
        }
        self.text.push("</div>\n");
    }

    /// A chart and its numbers.
    fn chart(&mut self, chart: &Chart, name: &str) {
        self.text.push("<figure>\n");
        self.text.element("figcaption", "", &chart.title);
        let label = escaped(&format!("{}; its numbers are in the table below", chart.title));
        match chart::svg(chart, Form::Page) {
            Ok(svg) => {
                let start = format!("<svg role=\"img\" aria-label=\"{label}\"");
                self.text.push(&svg.replacen("<svg", &start, 1));
            }
            Err(error) => self.text.element("p", "", &format!("not drawn: {error}")),
        }
        for note in &chart.notes {
            self.text.element("p", "class=\"note\"", note);
        }
        let table = chart.table();
        self.text.push("<details>\n<summary>Numbers");
        self.text.element("span", "class=\"unseen\"", &format!(" of {}", chart.title));
        self.text.push("</summary>\n");
        self.text.table(&format!("{}: {name}, report {}", chart.title, self.nth), &table);
        self.text.push("</details>\n</figure>\n");
    }
}
