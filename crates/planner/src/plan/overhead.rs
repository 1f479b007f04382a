//! `--client-overhead`: the cost of the client on a host, by name or as typed.

use std::str::FromStr;

use stormlp_core::numbers::within;
use stormlp_core::units::parse_seconds;
use stormlp_training::plan::client::{Client, ClientCost};

/// An overhead as typed for `--client-overhead`.
#[derive(Debug, Clone, PartialEq)]
pub enum Overhead {
    /// The overhead of a client, or the one in a file.
    Of(Client),
    /// The time per step, and CPU time per GiB: `step=0.7ms,gib=0.9s`.
    Typed(ClientCost),
}

impl FromStr for Overhead {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.contains('=') || text.contains('/') {
            return Ok(Self::Of(text.to_string().into()));
        }
        let mut cost = ClientCost::NONE;
        for part in text.split(',') {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let slot = match key {
                "step" => &mut cost.step_seconds,
                "gib" => &mut cost.cpu_seconds_per_gib,
                _ => {
                    return Err(format!(
                        "`{part}` is not a part of an overhead: use step=0.7ms,gib=0.9s, or one of \
                         these"
                    ));
                }
            };
            *slot = within(parse_seconds, 0.0..=3600.0, "0 to 1h")(value)?;
        }
        Ok(Self::Typed(cost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overhead_is_a_client_or_its_figures() {
        for (text, client) in [
            ("none", Client::None),
            ("dlio", Client::Dlio),
            ("a=1/dlio.json", Client::Calibrated("a=1/dlio.json".into())),
        ] {
            assert_eq!(text.parse(), Ok(Overhead::Of(client)));
        }
        let of = |step_seconds, cpu_seconds_per_gib| {
            Ok(Overhead::Typed(ClientCost {
                step_seconds,
                cpu_seconds_per_gib,
                ..ClientCost::NONE
            }))
        };
        assert_eq!("step=1ms,gib=0.5s".parse(), of(0.001, 0.5));
        assert_eq!("step=2ms".parse(), of(0.002, 0.0));
        for wrong in ["step=fast", "stp=1ms", "step=1ms,5"] {
            assert!(wrong.parse::<Overhead>().is_err(), "{wrong}");
        }
    }
}
