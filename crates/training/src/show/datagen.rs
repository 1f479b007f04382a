//! Output of `stormlp datagen`: the outline, the report, and the verification result.

use stormlp_core::location::names_object;
use stormlp_core::units::{ByteSize, counted, format_duration};
use stormlp_dataset::report::{GenerateOutline, GenerateReport, Verification};

use stormlp_show::document::Document;
use stormlp_show::numbers::short;
use stormlp_show::objects;

/// The outline of a run, as `--dry-run` prints it.
pub fn outline(outline: &GenerateOutline) -> Document {
    let mut document = Document::new(format!(
        "{} ({}): {}, {}, {} in each",
        outline.workload,
        outline.format,
        counted(outline.train_files, "training file"),
        counted(outline.valid_files, "evaluation file"),
        counted(outline.samples_per_file, "sample")
    ));
    let about = if outline.bytes_are_exact { "" } else { "at most " };
    let facts = &mut document.brief;
    facts.add("folder", outline.folder.display());
    facts.add("bytes", format!("{about}{} ({} bytes)", ByteSize(outline.bytes), outline.bytes));
    facts.add("sizes", format!("edition {}", outline.profile));
    if outline.subfolders > 1 {
        facts.add("subfolders", outline.subfolders);
    }
    facts.add("content", format!("{}, seed {}", outline.content, outline.seed));
    facts.add("threads", outline.threads);
    facts.add(
        "free",
        match (outline.free_bytes, outline.fits) {
            (Some(free), Some(true)) => format!("{}: it fits", ByteSize(free)),
            (Some(free), _) => format!("{}: it does not fit", ByteSize(free)),
            (None, _) => "unknown".to_string(),
        },
    );
    document
}

/// The report of a run.
pub fn report(report: &GenerateReport) -> Document {
    let mut document = Document::new(format!(
        "{}: {}, {} in {}",
        report.workload,
        counted(report.files, &format!("{} file", report.format)),
        ByteSize(report.bytes),
        report.folder.display()
    ));
    let facts = &mut document.brief;
    if report.files_kept > 0 {
        facts.add("kept", format!("{} that were complete", counted(report.files_kept, "file")));
    }
    if !report.remade.is_empty() {
        facts.add("remade", report.remade.join(", "));
    }
    if report.files_made > 0 {
        facts.add("wrote", wrote(report));
    }
    match &report.object_store {
        Some(store) => {
            facts.add("how", format!("{} threads, PUT and uploads over HTTP", report.threads));
            let server = store.server.as_deref().unwrap_or("unknown");
            facts.add("store", format!("{} (Server: {server})", store.endpoint));
            facts.add("requests", objects::requests(store));
            if let Some(words) = objects::verified([store]) {
                facts.add("verified", words);
            }
        }
        None if names_object(&report.folder) => {
            facts.add("how", "no file had to be made");
        }
        None => {
            let way = if report.direct { "O_DIRECT" } else { "through the page cache" };
            facts.add("how", format!("{} threads, {}, {way}", report.threads, report.engine));
        }
    }
    document.warn(&report.warnings);
    document
}

fn wrote(report: &GenerateReport) -> String {
    let amount = format!(
        "{}, {} in {}",
        counted(report.files_made, "file"),
        ByteSize(report.bytes_written),
        format_duration(report.seconds)
    );
    if report.seconds > 0.0 {
        let rate = report.bytes_written as f64 / report.seconds / f64::from(1u32 << 20);
        format!("{amount} ({} MiB/s)", short(rate))
    } else {
        amount
    }
}

/// The verification result.
pub fn verification(verification: &Verification) -> Document {
    let how = if verification.by_checksum {
        let read = ByteSize(verification.bytes);
        format!("against the checksums of the manifest, {read} read")
    } else {
        "by size and framing: there is no manifest with checksums".to_string()
    };
    let files = verification.files;
    let good = files.saturating_sub(verification.not_good() as u64);
    let mut document = Document::new(format!("{good} of {files} files are good, checked {how}"));
    let Verification { faults, missing, unread, .. } = verification;
    let bad = faults.iter().map(|fault| format!("bad: {fault}"));
    let missing = missing.iter().map(|name| format!("missing: {name}"));
    let unread = unread.iter().map(|why| format!("could not be verified: {}", why.fact));
    document.section("", None).lines = bad.chain(missing).chain(unread).collect();
    document.warn(&verification.warnings);
    document
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use stormlp_core::note::{Cause, Note};
    use stormlp_core::path::EngineKind;
    use stormlp_core::warning::{Warning, WarningKind};
    use stormlp_dataset::report::{GenerateOutline, GenerateReport, Verification};

    use stormlp_show::text::render;

    #[test]
    fn an_outline_says_whether_it_fits() {
        let outline = GenerateOutline {
            folder: PathBuf::from("./stormlp-data/unet3d"),
            workload: "unet3d".to_string(),
            profile: "2.0".to_string(),
            format: "npz".to_string(),
            files: 168,
            train_files: 168,
            valid_files: 0,
            subfolders: 0,
            samples_per_file: 1,
            bytes: 25_286_065_583,
            bytes_are_exact: true,
            content: "random".to_string(),
            seed: 42,
            threads: 4,
            buffer_bytes: 256 << 20,
            free_bytes: Some(10 << 30),
            fits: Some(false),
        };
        insta::assert_snapshot!(render(&super::outline(&outline), None));
    }

    #[test]
    fn a_report_says_what_was_written_and_how() {
        let report = GenerateReport {
            folder: PathBuf::from("data"),
            workload: "unet3d".to_string(),
            profile: "2.0".to_string(),
            format: "npz".to_string(),
            files: 10,
            files_made: 4,
            files_kept: 6,
            remade: vec!["train/img_3_of_10.npz".to_string()],
            bytes: 10 << 20,
            bytes_written: 4 << 20,
            seconds: 2.0,
            cpu_user_seconds: 0.5,
            cpu_system_seconds: 0.25,
            threads: 4,
            engine: EngineKind::Psync,
            direct: false,
            object_store: None,
            warnings: vec![Warning::new(WarningKind::NotDirect, "no O_DIRECT", "beware")],
        };
        insta::assert_snapshot!(render(&super::report(&report), None));
        let slow = GenerateReport { bytes_written: 1 << 20, seconds: 4.0, ..report };
        assert!(super::wrote(&slow).ends_with("(0.250 MiB/s)"), "{}", super::wrote(&slow));
    }

    #[test]
    fn what_is_missing_or_was_not_read_is_not_called_bad() {
        let verification = Verification {
            files: 3,
            missing: vec!["train/a".to_string()],
            unread: vec![Note::new(Cause::Machine, "train/b: refused", "ask for permission")],
            ..Verification::default()
        };
        let text = render(&super::verification(&verification), None);
        assert!(text.contains("1 of 3 files are good"), "{text}");
        assert!(text.contains("missing: train/a"), "{text}");
        assert!(text.contains("could not be verified: train/b: refused"), "{text}");
        assert!(!text.contains("bad"), "{text}");
    }

    #[test]
    fn bad_files_are_listed_first() {
        let verification = Verification {
            files: 3,
            bytes: 5 << 20,
            by_checksum: true,
            faults: vec!["train/a: its content was modified".to_string()],
            ..Verification::default()
        };
        insta::assert_snapshot!(render(&super::verification(&verification), None));
    }
}
