//! The device whose memory transfers end in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The location of the accelerator memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub enum DeviceId {
    /// Host memory emulates an accelerator.
    Host,
    /// The CUDA device with this index.
    Cuda(u32),
}

impl DeviceId {
    /// The CUDA device index; `None` for host memory.
    pub fn cuda_index(self) -> Option<u32> {
        match self {
            Self::Host => None,
            Self::Cuda(index) => Some(index),
        }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.pad("host"),
            Self::Cuda(index) => f.pad(&format!("cuda:{index}")),
        }
    }
}

impl From<DeviceId> for String {
    fn from(device: DeviceId) -> Self {
        device.to_string()
    }
}

impl TryFrom<String> for DeviceId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for DeviceId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "host" {
            return Ok(Self::Host);
        }
        text.strip_prefix("cuda:")
            .unwrap_or(text)
            .parse()
            .map(Self::Cuda)
            .map_err(|_| format!("`{text}` is not a device: use host or cuda:0"))
    }
}
