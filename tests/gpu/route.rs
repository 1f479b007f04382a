//! The route that a check's evidence must show; needs no GPU.

use stormlp_core::evidence::{DirectIo, Evidence, RouteProof};
use stormlp_core::path::PathKind;

/// The word for the route that `asked` took: it ran, or the fallback of cuFile, which is a fault if
/// the route must be direct. Unproven is not a fault. `None` on the CPU's paths.
///
/// # Errors
/// When the evidence shows another route than it may.
pub(crate) fn word(
    asked: PathKind,
    evidence: &Evidence,
    must_be_direct: bool,
) -> Result<Option<&'static str>, String> {
    let (ran, summary) = (evidence.effective_path, &evidence.summary);
    let Some(cufile) = &evidence.direct_storage else {
        return if evidence.direct_io == DirectIo::Refused || ran == Some(asked) {
            Ok(None)
        } else {
            Err(format!("{asked} did not run: {summary}"))
        };
    };
    let word = match (ran, cufile.proof) {
        (None, RouteProof::None) => "not proven",
        (Some(_), RouteProof::None) => {
            return Err(format!("a route is named, and nothing shows it: {summary}"));
        }
        (None, _) => "part direct",
        (Some(ran), _) if ran == asked => "direct",
        (Some(_), _) => "compat",
    };
    if must_be_direct && matches!(word, "part direct" | "compat") {
        Err(format!("the route is {word}: {summary}"))
    } else {
        Ok(Some(word))
    }
}
