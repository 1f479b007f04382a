//! cuFile's error codes as integers, and their meaning for the user.

use super::nvidia;
use super::sys::CUfileError_t;
use crate::cuda::{NO_FABRIC, SYSTEM_NOT_READY};
use crate::error::{TransferError, is_lost};

/// Why cuFile cannot be used, or how a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CuFileError {
    /// It cannot be used here.
    #[error("{reason}")]
    Unusable {
        /// Why not.
        reason: String,
        /// The next step for the user.
        remedy: &'static str,
    },
    /// A transfer stopped without an error.
    #[error("{call} moved {moved} of {len} bytes at byte {offset} and then none, without an error")]
    NoProgress {
        /// The function.
        call: &'static str,
        /// Bytes moved.
        moved: usize,
        /// Bytes requested.
        len: usize,
        /// Their file offset.
        offset: u64,
    },
    /// A call failed.
    #[error("{call} failed with {}", described(call, *code, *cuda_code))]
    Call {
        /// The function.
        call: &'static str,
        /// cuFile's code, or a negative errno.
        code: i32,
        /// The CUDA driver's code, 0 for none.
        cuda_code: i32,
    },
}

impl CuFileError {
    /// The next step for the user.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Unusable { remedy, .. } => remedy,
            Self::NoProgress { call: "cuFileWrite", .. } => {
                "the file system may be full, or not support direct writes here; see cufile.log in \
                 the folder of the run"
            }
            Self::NoProgress { .. } => {
                "check the device and the file system; see cufile.log in the folder of the run"
            }
            Self::Call { cuda_code: SYSTEM_NOT_READY, .. } => NO_FABRIC.trim_start_matches("; "),
            Self::Call { call, code, .. } => nvidia::remedy(call, *code),
        }
    }

    /// Whether libcufile may have hidden the reason: in its compatibility mode it returns -1 with an
    /// errno of 1 for any error of reads, of writes 1 or 5, and batches have one code for all.
    pub(crate) fn hides_the_reason(&self) -> bool {
        matches!(self, Self::Call { code: -1 | -5 | 5044, .. })
    }

    pub(super) fn unusable(reason: impl Into<String>, remedy: &'static str) -> Self {
        Self::Unusable { reason: reason.into(), remedy }
    }

    /// No library was found, for these reasons.
    pub(super) fn not_found(tried: &[String]) -> Self {
        let remedy = "install the GPUDirect Storage library (libcufile, part of the CUDA toolkit \
                      and of the Python packages nvidia-cufile and nvidia-cufile-cu12) or name it \
                      with STORMLP_LIBCUFILE=/path/to/libcufile.so.0";
        Self::unusable(format!("libcufile was not found: tried {}", tried.join("; ")), remedy)
    }
}

impl From<CuFileError> for TransferError {
    fn from(error: CuFileError) -> Self {
        let remedy = error.remedy();
        match error {
            CuFileError::Call { call, code, cuda_code }
                if !is_set_up(call) || is_lost(cuda_code) =>
            {
                let text = described(call, code, cuda_code);
                let explanation = format!("{text}; {remedy}");
                Self::Gpu { call: call.to_string(), code, cuda_code, explanation }
            }
            CuFileError::NoProgress { call, .. } => Self::Gpu {
                call: call.to_string(),
                code: 0,
                cuda_code: 0,
                explanation: format!("{error}; {remedy}"),
            },
            other => Self::Unavailable {
                what: "cuFile".to_string(),
                reason: other.to_string(),
                remedy: remedy.to_string(),
            },
        }
    }
}

/// Whether a call prepares transfers: its failure means that this machine, file system or memory
/// does not meet cuFile's requirements, not that a transfer failed.
fn is_set_up(call: &str) -> bool {
    let starts = |start| call.starts_with(start);
    call.ends_with("Register") || starts("cuFileDriver") || starts("cuFileSet")
}

/// `Ok` for success, otherwise the failed call.
pub(crate) fn check(call: &'static str, status: CUfileError_t) -> Result<(), CuFileError> {
    match status {
        CUfileError_t { err: 0, .. } => Ok(()),
        CUfileError_t { err: code, cu_err: cuda_code } => {
            Err(CuFileError::Call { call, code, cuda_code })
        }
    }
}

/// The count or error in the result of a read or write: −1 leaves the reason in errno, anything
/// below is a negated code of cuFile or errno.
pub(crate) fn check_transfer(
    call: &'static str,
    returned: isize,
    errno: impl FnOnce() -> i32,
) -> Result<usize, CuFileError> {
    match returned {
        0.. => Ok(returned as usize),
        // cuFile stores its codes in errno too.
        -1 => Err(negated(call, -(errno().unsigned_abs().max(1) as isize))),
        _ => Err(negated(call, returned)),
    }
}

/// The error for a negative result: cuFile's codes negated, or a negative errno.
pub(crate) fn negated(call: &'static str, returned: isize) -> CuFileError {
    let value = i32::try_from(returned).unwrap_or(i32::MIN + 1);
    let code = if value <= -BASE { -value } else { value };
    CuFileError::Call { call, code, cuda_code: 0 }
}

/// cuFile's codes are above this one.
const BASE: i32 = 5000;

/// A code that a call returned as text: its name and meaning, errno included.
fn described(call: &str, code: i32, cuda_code: i32) -> String {
    let mut text = match nvidia::meaning(call, code) {
        Some((name, text)) => format!("{code} {name}: {text}"),
        None if code == -1 => "errno 1, which libcufile returns for any error".to_string(),
        None if (-4095..0).contains(&code) => {
            format!("errno {}: {}", -code, std::io::Error::from_raw_os_error(-code))
        }
        None => format!("{code}, a code this version of stormlp does not know"),
    };
    if cuda_code != 0 {
        text.push_str(&format!(" (CUDA driver code {cuda_code})"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(call: &'static str, code: i32) -> CuFileError {
        CuFileError::Call { call, code, cuda_code: 0 }
    }

    fn describe(code: i32, cuda_code: i32) -> String {
        described("cuFileRead", code, cuda_code)
    }

    #[test]
    fn a_transfer_returns_a_count_an_errno_or_a_code() {
        let outcome = |returned| check_transfer("cuFileRead", returned, || libc::EIO);
        assert_eq!(outcome(4096), Ok(4096));
        assert_eq!(outcome(0), Ok(0));
        let code = |returned| match outcome(returned) {
            Err(CuFileError::Call { code, .. }) => code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code(-1), -libc::EIO);
        assert_eq!(code(-5044), 5044);
        assert_eq!(code(-9), -libc::EBADF);
        assert_eq!(code(isize::MIN), i32::MAX);
        let in_errno = |errno| match check_transfer("cuFileRead", -1, || errno) {
            Err(CuFileError::Call { code, .. }) => code,
            other => panic!("{other:?}"),
        };
        assert_eq!((in_errno(5027), in_errno(0)), (5027, -1));
        assert!(describe(in_errno(5027), 0).contains("HANDLE_NOT_REGISTERED"));
    }

    #[test]
    fn every_code_is_described() {
        assert!(describe(5027, 0).contains("HANDLE_NOT_REGISTERED"));
        assert!(describe(-22, 0).starts_with("errno 22"));
        assert!(describe(7777, 0).contains("does not know"));
        assert!(describe(i32::MIN, 0).contains("does not know"));
        assert!(describe(5011, 3).ends_with("(CUDA driver code 3)"));
    }

    #[test]
    fn a_file_that_is_not_registered_is_explained_by_its_file_system() {
        for code in [5027, 5030] {
            let error = failed("cuFileHandleRegister", code);
            assert!(error.to_string().ends_with("the file system was not recognised"));
            assert!(error.remedy().contains("-v /run/udev:/run/udev:ro"), "{}", error.remedy());
        }
        let elsewhere = failed("cuFileDriverOpen", 5030);
        assert!(elsewhere.to_string().contains("an internal error"), "{elsewhere}");
    }

    #[test]
    fn a_malformed_configuration_is_named() {
        for code in [-22, 5002] {
            let error = failed("cuFileDriverOpen", code);
            assert!(error.remedy().contains("cufile.json"), "{error}");
        }
    }
}
