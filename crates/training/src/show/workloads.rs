//! The built-in training workloads as a document.

use crate::plan::workload::Workload;

use stormlp_show::document::{Document, Table, number, word};

/// A workload of the table.
type Row<'a> = &'a Workload;

/// A row per workload: its properties and its demand on storage.
pub fn workloads(workloads: &[Workload]) -> Document {
    let mut document = Document::new(format!("{} training workloads", workloads.len()));
    let table = Table::of(
        workloads,
        |_| String::new(),
        vec![
            word("workload", 0, |one: &Row<'_>| one.name.clone()),
            word("accelerator", 0, |one: &Row<'_>| one.accelerator.clone()),
            word("edition", 0, |one: &Row<'_>| one.edition.edition().to_string()),
            word("format", 0, |one: &Row<'_>| one.dataset.format.to_string()),
            number("bytes/sample", 1, |one: &Row<'_>| one.dataset.record_length_bytes.to_string()),
            number("samples/file", 3, |one: &Row<'_>| one.dataset.num_samples_per_file),
            number("batch", 2, |one: &Row<'_>| one.reader.batch_size),
            number("compute s", 0, |one: &Row<'_>| {
                one.train.computation_time.mean_seconds().to_string()
            }),
            number("AU %", 0, |one: &Row<'_>| format!("{:.0}", one.metric.au * 100.0)),
            number("GB/s", 0, |one: &Row<'_>| demand(one)),
        ],
    );
    document.section("Training: stormlp train WORKLOAD", Some(table)).lines = vec![
        "GB/s (10^9 bytes): demand of one accelerator at an AU of 100 %; dlrm reads 40 of its 200 \
         columns"
            .to_string(),
    ];
    document
}

/// The demand of one accelerator in GB/s.
fn demand(workload: &Workload) -> String {
    let dataset = &workload.dataset;
    let columns = dataset.parquet.columns.iter();
    let read: u64 = columns.filter(|column| column.read).map(|column| column.row_bytes()).sum();
    let sample = if read > 0 { read as f64 } else { dataset.record_length_bytes };
    let compute = workload.train.computation_time.mean_seconds();
    let demand = f64::from(workload.reader.batch_size) * sample / compute / 1e9;
    if demand < 0.01 { format!("{demand:.4}") } else { format!("{demand:.2}") }
}
