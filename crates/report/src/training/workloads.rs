//! The built-in workloads as a table.

use stormlp_model::training::workload::Workload;

use super::table;

/// One line for each workload: what it is made of and what it asks of storage.
#[must_use]
pub fn workloads_text(workloads: &[Workload]) -> String {
    let rows = workloads.iter().map(row).collect();
    let header = [
        "workload",
        "accelerator",
        "profile",
        "format",
        "bytes/sample",
        "samples/file",
        "batch",
        "compute s",
        "AU %",
        "GB/s",
    ];
    let mut text = table::draw(&header, rows, 4);
    text.push_str(
        "GB/s (10^9 bytes) is what one accelerator asks of the storage at an AU of 100 %; dlrm \
         reads 40 of its 200 columns.\n`stormlp workloads show NAME` prints one as YAML, NAME as \
         in unet3d or unet3d_h100.\n",
    );
    text
}

fn row(workload: &Workload) -> Vec<String> {
    let dataset = &workload.dataset;
    let columns = &dataset.parquet.columns;
    let read: u64 = columns
        .iter()
        .filter(|column| column.read)
        .map(|column| column.row_bytes())
        .sum();
    let sample = if read > 0 {
        read as f64
    } else {
        dataset.record_length_bytes
    };
    let compute = workload.train.computation_time.mean_seconds();
    let demand = f64::from(workload.reader.batch_size) * sample / compute / 1e9;
    vec![
        workload.name.clone(),
        workload.accelerator.clone(),
        workload.edition.to_string(),
        dataset.format.to_string(),
        format!("{}", dataset.record_length_bytes),
        dataset.num_samples_per_file.to_string(),
        workload.reader.batch_size.to_string(),
        format!("{compute}"),
        format!("{:.0}", workload.metric.au * 100.0),
        if demand < 0.01 {
            format!("{demand:.4}")
        } else {
            format!("{demand:.2}")
        },
    ]
}
