//! `stormlp doctor s3://bucket/prefix`: whether the object store answers, and what it may be asked for.
//! Nothing is written.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use stormlp_core::evidence::ObjectStore;
use stormlp_core::facts::Availability;
use stormlp_core::failure::Failure;
use stormlp_core::location::ObjectName;
use stormlp_show::document::Document;
use stormlp_transfer::TransferError;
use stormlp_transfer::object::{Client, ObjectError, ObjectRules, Settings};

use crate::output::Format;

/// Requests of which the round trip is the median.
const TRIPS: usize = 9;

/// An object store as this user sees it.
#[derive(Debug, Serialize)]
struct Examined {
    /// As typed: `s3://bucket/prefix`.
    location: String,
    /// The endpoint, and the requests of this examination.
    store: ObjectStore,
    /// Whether the objects beneath the prefix may be listed.
    list: Availability,
    /// Whether there is any.
    has_objects: bool,
    /// Unfinished uploads beneath the prefix; `None` if they may not be listed.
    unfinished_uploads: Option<usize>,
    /// The median time of a list of one key over an open connection, in milliseconds.
    round_trip_ms: Option<f64>,
}

/// Examines the store and prints the findings. Only one that cannot be reached, and wrong settings, are
/// errors.
pub(super) fn run(location: &Path, format: Format) -> Result<(), Failure> {
    let ObjectName { bucket, key } = ObjectName::of(location).map_err(Failure::usage)?;
    let mut session = Client::new(Settings::of_user()?, ObjectRules::default())?.session(bucket)?;
    let prefix = match key {
        "" => String::new(),
        key => format!("{}/", key.trim_end_matches('/')),
    };
    let listed = match session.has_any(&prefix) {
        Err(error) if session.evidence().http.is_none() => {
            return Err(TransferError::from(error).into());
        }
        listed => listed,
    };
    let mut trips_ms = Vec::new();
    for _ in 0..TRIPS {
        let begun = Instant::now();
        if session.has_any(&prefix).is_ok() {
            trips_ms.push(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
    trips_ms.sort_by(f64::total_cmp);
    let examined = Examined {
        location: location.display().to_string(),
        unfinished_uploads: session.uploads(&prefix).ok().map(|all| all.len()),
        has_objects: *listed.as_ref().unwrap_or(&false),
        list: listed.map_or_else(unavailable, |_| Availability::Available),
        round_trip_ms: trips_ms.get(trips_ms.len() / 2).copied(),
        store: session.evidence(),
    };
    format.print(&examined, document)
}

fn unavailable(error: ObjectError) -> Availability {
    Availability::unavailable(error.to_string(), error.remedy())
}

fn document(examined: &Examined) -> Document {
    let Examined { location, store, list, has_objects, unfinished_uploads, round_trip_ms } =
        examined;
    let unknown = || "unknown".to_string();
    let mut document = Document::new(match list {
        Availability::Available => format!("{location} can be listed"),
        Availability::Unavailable { fact, .. } => fact.clone(),
    });
    let facts = &mut document.brief;
    facts.add(
        "endpoint",
        format!(
            "{}, bucket in the {}",
            store.endpoint,
            match store.addressing.as_str() {
                "virtual" => "host name",
                _ => "path",
            }
        ),
    );
    facts.add("server", store.server.clone().unwrap_or_else(unknown));
    let tls = store.tls.as_deref().unwrap_or("without TLS");
    facts.add("protocol", format!("{}, {tls}", store.http.clone().unwrap_or_else(unknown)));
    match list {
        Availability::Available => facts.add("objects", if *has_objects { "some" } else { "none" }),
        Availability::Unavailable { remedy, .. } => facts.add("to do", remedy),
    }
    let uploads = unfinished_uploads.map(|count| match count {
        0 => "none".to_string(),
        count => format!("{count}; `stormlp clean {location}` aborts those of stormlp's"),
    });
    facts.add(
        "unfinished uploads",
        uploads.unwrap_or_else(|| "not listed by the endpoint".to_string()),
    );
    if let Some(ms) = round_trip_ms {
        facts.add("round trip", format!("{ms:.2} ms (median of {TRIPS} lists of one key)"));
    }
    facts.add("writing", "not tried: doctor writes nothing");
    document
}
