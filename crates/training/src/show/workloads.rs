//! The built-in workloads as a document.

use crate::plan::workload::Workload;

use stormlp_show::document::{Cell, Column, Document, Table};

/// A row per workload: its properties and its demand on storage.
pub fn workloads(workloads: &[Workload]) -> Document {
    let mut document = Document::new(format!("{} workloads are built in", workloads.len()));
    let mut table = Table::new([
        Column::words("workload", 0),
        Column::words("accelerator", 0),
        Column::words("profile", 0),
        Column::words("format", 0),
        Column::numbers("bytes/sample", 1),
        Column::numbers("samples/file", 3),
        Column::numbers("batch", 2),
        Column::numbers("compute s", 0),
        Column::numbers("AU %", 0),
        Column::numbers("GB/s", 0),
    ]);
    for workload in workloads {
        table.row("", row(workload));
    }
    document.table(table).lines = vec![
        "GB/s (10^9 bytes) is the demand of one accelerator on storage at an AU of 100 %; dlrm \
         reads 40 of its 200 columns."
            .to_string(),
        "`stormlp workloads show NAME` prints one as YAML, NAME as in unet3d or unet3d_h100."
            .to_string(),
    ];
    document
}

fn row(workload: &Workload) -> Vec<Cell> {
    let dataset = &workload.dataset;
    let columns = dataset.parquet.columns.iter();
    let read: u64 = columns.filter(|column| column.read).map(|column| column.row_bytes()).sum();
    let sample = if read > 0 { read as f64 } else { dataset.record_length_bytes };
    let compute = workload.train.computation_time.mean_seconds();
    let demand = f64::from(workload.reader.batch_size) * sample / compute / 1e9;
    let demand = if demand < 0.01 { format!("{demand:.4}") } else { format!("{demand:.2}") };
    let cells = [
        workload.name.clone(),
        workload.accelerator.clone(),
        workload.edition.to_string(),
        dataset.format.to_string(),
        dataset.record_length_bytes.to_string(),
        dataset.num_samples_per_file.to_string(),
        workload.reader.batch_size.to_string(),
        compute.to_string(),
        format!("{:.0}", workload.metric.au * 100.0),
        demand,
    ];
    cells.map(Cell::Text).to_vec()
}
