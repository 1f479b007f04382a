//! Object stores: what their evidence says beside the figures.

use stormlp_core::evidence::{ObjectChecksums, ObjectStore};
use stormlp_core::units::{ByteSize, counted};

/// What checksums showed, of all `stores`; `None` unless they were asked for.
pub fn verified<'s>(stores: impl IntoIterator<Item = &'s ObjectStore>) -> Option<String> {
    let found = stores.into_iter().filter_map(|store| store.checksums);
    found.reduce(ObjectChecksums::plus).map(ObjectChecksums::to_text)
}

/// What was asked of a store, and what passed over the wire.
pub fn requests(store: &ObjectStore) -> String {
    let retries = match (store.retries, store.retries_after_loss) {
        (0, _) => "0 retries".to_string(),
        (1, 0) => "1 retry after a refusal".to_string(),
        (1, _) => "1 retry after a lost connection".to_string(),
        (all, 0) => format!("{all} retries after refusals"),
        (all, lost) if all == lost => format!("{all} retries after lost connections"),
        (all, lost) => format!("{all} retries, {lost} of them after lost connections"),
    };
    format!(
        "{} over {}, {retries}; {} sent, {} received",
        counted(store.requests, "request"),
        counted(store.connections, "connection"),
        ByteSize(store.sent_bytes),
        ByteSize(store.received_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_retries_are_told_apart() {
        let store = |retries, retries_after_loss| ObjectStore {
            requests: 10,
            connections: 1,
            sent_bytes: 2048,
            retries,
            retries_after_loss,
            ..ObjectStore::default()
        };
        let told = requests(&store(0, 0));
        assert_eq!(told, "10 requests over 1 connection, 0 retries; 2 KiB sent, 0 B received");
        for (retries, lost, expected) in [
            (1, 0, "1 retry after a refusal"),
            (3, 3, "3 retries after lost connections"),
            (3, 1, "3 retries, 1 of them after lost connections"),
        ] {
            let told = requests(&store(retries, lost));
            assert!(told.contains(expected), "{told}");
        }
    }

    #[test]
    fn a_run_that_verified_nothing_says_so() {
        let store = |checksums| ObjectStore { checksums, ..ObjectStore::default() };
        assert_eq!(verified([&store(None)]), None);
        let nothing = ObjectChecksums { responses_unverified: 3, ..ObjectChecksums::default() };
        let told = verified([&store(Some(nothing)), &store(None)]).unwrap();
        assert_eq!(told, "nothing: none of 3 replies had a checksum");
        let some = ObjectChecksums { checked_bytes: 1 << 20, ..ObjectChecksums::default() };
        let told = verified([&store(Some(nothing)), &store(Some(some))]).unwrap();
        assert_eq!(told, "1 MiB by checksum; 3 replies had none");
    }
}
