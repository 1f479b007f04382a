//! The costs of a client as a table.

use crate::plan::calibration::{COMPUTE_SECONDS, Calibration, SHORT_COMPUTE_SECONDS};
use stormlp_core::units::counted;
use stormlp_show::document::{Cell, Column, Document, Table};

/// The document of a calibration.
pub fn document(calibration: &Calibration) -> Document {
    let count = calibration.formats.len() as u64;
    let mut document =
        Document::new(format!("DLIO's own cost on this host with {}", counted(count, "format")));
    document.facts.add("client", &calibration.client);
    let cpus = counted(u64::from(calibration.cpus), "CPU");
    document
        .facts
        .add("host", format!("{}, {cpus}, {}", calibration.hostname, calibration.cpu_model));
    document.facts.add("load before", format!("{:.2}", calibration.load_before));
    if let Some(cost) = &calibration.checkpoint {
        let own = cost.own.map_or(String::new(), |own| {
            let (save, restore) = (own.save_seconds_per_gib, own.restore_seconds_per_gib);
            format!("; stormlp itself takes {save:.2} and {restore:.2}")
        });
        document.facts.add(
            "checkpoints",
            format!(
                "{:.2} s/GiB a rank to save, {:.2} to restore, without storage{own}",
                cost.client.save_seconds_per_gib, cost.client.restore_seconds_per_gib
            ),
        );
    }
    let (short, long) = (SHORT_COMPUTE_SECONDS * 1e3, COMPUTE_SECONDS * 1e3);
    document
        .facts
        .add("steps", format!("a short one computes for {short:.0} ms, others for {long:.0} ms"));
    document.table(table(calibration));
    document.warn(&calibration.origin("just made".to_string()).busy_warning());
    document
}

fn table(calibration: &Calibration) -> Table {
    let mut table = Table::new([
        Column::words("format", 0),
        Column::numbers("ms/short step", 0),
        Column::numbers("ms/step", 0),
        Column::numbers("+ms/sample", 0),
        Column::numbers("late ms", 0),
        Column::numbers("CPU ms/sample", 0),
        Column::numbers("CPU s/GiB", 0),
        Column::numbers("own s/GiB", 1),
    ]);
    for cost in &calibration.formats {
        let ms = |seconds: f64| Cell::Text(format!("{:.3}", seconds * 1e3));
        table.row(
            cost.format.name(),
            vec![
                Cell::Text(cost.format.to_string()),
                ms(cost.short_step.seconds),
                ms(cost.step.seconds),
                ms(cost.step_seconds_per_sample),
                ms(cost.step.oversleep_seconds),
                ms(cost.workers.seconds_per_sample),
                Cell::Text(format!("{:.2}", cost.workers.seconds_per_gib)),
                Cell::Text(format!("{:.2}", cost.own.seconds_per_gib)),
            ],
        );
    }
    table
}
