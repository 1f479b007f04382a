//! cuFile's error codes as integers, and their meaning for the user.

use std::path::PathBuf;

use super::log::ALLOW_COMPAT;
use super::sys::CUfileError_t;
use super::version::LibraryVersion;
use crate::cuda::{NO_FABRIC, SYSTEM_NOT_READY};
use crate::error::TransferError;

/// Why cuFile cannot be used, or how a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CuFileError {
    /// No libcufile could be opened.
    #[error("libcufile was not found: tried {}", tried.join("; "))]
    NotFound {
        /// Each candidate with the loader's error.
        tried: Vec<String>,
    },
    /// The library is too old.
    #[error(
        "libcufile at {} is too old: {}, and {} or later is needed",
        path.display(),
        found.map_or_else(|| "it does not report its version".to_string(), |found| format!("version {found}")),
        LibraryVersion::OLDEST
    )]
    TooOld {
        /// Where it was found.
        path: PathBuf,
        /// Its version, if it reports one.
        found: Option<LibraryVersion>,
    },
    /// A function that every version has is missing: not libcufile.
    #[error("{} has no function {symbol}: it is not a usable libcufile", path.display())]
    NotCuFile {
        /// Where it was found.
        path: PathBuf,
        /// The missing function.
        symbol: &'static str,
    },
    /// The library is too old for an optional interface.
    #[error("libcufile {version} has no {symbol}; {since} or later has")]
    Missing {
        /// The missing function.
        symbol: &'static str,
        /// The library's version.
        version: LibraryVersion,
        /// The first version with it.
        since: &'static str,
    },
    /// Compatibility mode should be forbidden, but the library does not confirm that.
    #[error("libcufile {0} ignored the setting that forbids its compatibility mode")]
    CompatNotForbidden(LibraryVersion),
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
    /// The driver is already open with other settings.
    #[error("cuFile is already open in this process with other settings")]
    OpenOtherwise,
    /// A read reported success but did not return the file's contents.
    #[error("cuFileRead moved {moved} of 4096 bytes, or not the file's bytes, without an error")]
    WrongData {
        /// Bytes reported as moved.
        moved: usize,
    },
    /// A call failed.
    #[error("{call} failed with {}", describe_at(call, *code, *cuda_code))]
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
    /// What the user can do.
    pub fn remedy(&self) -> String {
        match self {
            Self::NotFound { .. } => "install the GPUDirect Storage library (libcufile, part of \
                 the CUDA toolkit and of the Python packages nvidia-cufile and \
                 nvidia-cufile-cu12) or name it with STORMLP_LIBCUFILE=/path/to/libcufile.so.0"
                .to_string(),
            Self::TooOld { .. } | Self::Missing { .. } => "install a newer CUDA toolkit, or name \
                 a newer library with STORMLP_LIBCUFILE"
                .to_string(),
            Self::NotCuFile { .. } => "check STORMLP_LIBCUFILE".to_string(),
            Self::CompatNotForbidden(_) => format!(
                "set properties.allow_compat_mode to false in cufile.json, or run with {ALLOW_COMPAT}=false"
            ),
            Self::NoProgress { call, .. } => {
                match *call {
                    "cuFileWrite" => {
                        "the file system may be full, or not support direct writes here"
                    }
                    _ => "check the device and the file system",
                }
                .to_string()
                    + "; see cufile.log in the folder of the run"
            }
            Self::OpenOtherwise => "use one configuration per process".to_string(),
            Self::WrongData { .. } => "do not use cuFile here; see cufile.log".to_string(),
            Self::Call { cuda_code: SYSTEM_NOT_READY, .. } => {
                NO_FABRIC.trim_start_matches("; ").to_string()
            }
            Self::Call { call, code, .. } => remedy(call, *code).to_string(),
        }
    }
}

impl From<CuFileError> for TransferError {
    fn from(error: CuFileError) -> Self {
        let remedy = error.remedy();
        match error {
            CuFileError::Call { call, code, cuda_code } if !is_set_up(call) => {
                let text = describe_at(call, code, cuda_code);
                Self::CuFile { call, code, cuda_code, explanation: format!("{text}; {remedy}") }
            }
            CuFileError::NoProgress { call, .. } => Self::CuFile {
                call,
                code: 0,
                cuda_code: 0,
                explanation: format!("{error}; {remedy}"),
            },
            other => {
                Self::Unavailable { what: "cuFile".to_string(), reason: other.to_string(), remedy }
            }
        }
    }
}

/// Whether a call prepares transfers: its failure means that this machine, file system or memory
/// does not meet cuFile's requirements, not that a transfer failed.
fn is_set_up(call: &str) -> bool {
    let registers = call.starts_with("cuFile") && call.ends_with("Register");
    registers || call.starts_with("cuFileDriver") || call.starts_with("cuFileSet")
}

/// `Ok` for success, otherwise the failed call.
pub(crate) fn check(call: &'static str, status: CUfileError_t) -> Result<(), CuFileError> {
    if status.err == 0 {
        Ok(())
    } else {
        Err(CuFileError::Call { call, code: status.err, cuda_code: status.cu_err })
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
        // cuFile stores its own codes in errno too.
        -1 => Err(negated(call, -(errno().unsigned_abs().max(1) as isize))),
        _ => Err(negated(call, returned)),
    }
}

/// The error for a negative result: cuFile's own codes negated, or a negative errno.
pub(crate) fn negated(call: &'static str, returned: isize) -> CuFileError {
    let value = i32::try_from(returned).unwrap_or(i32::MIN + 1);
    let code = if value <= -BASE { -value } else { value };
    CuFileError::Call { call, code, cuda_code: 0 }
}

/// cuFile's own codes are above this one.
const BASE: i32 = 5000;

/// A code as text: its name and meaning, errno included.
pub fn describe(code: i32, cuda_code: i32) -> String {
    let mut text = match name_and_text(code) {
        Some((name, text)) => format!("{code} {name}: {text}"),
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

/// The code of `call` as text. Registering a file has codes of its own meaning: which of the two
/// it is depends on the library's version.
fn describe_at(call: &str, code: i32, cuda_code: i32) -> String {
    match (call, name_and_text(code)) {
        (REGISTER, Some((name, _))) if is_unknown_file_system(code) => {
            format!("{code} {name}: libcufile does not recognise the file system of the file")
        }
        _ => describe(code, cuda_code),
    }
}

/// The call that registers a file.
pub(super) const REGISTER: &str = "cuFileHandleRegister";

/// Whether [`REGISTER`] uses the code for files whose file system the library cannot determine:
/// 5030 up to 1.14, 5027 since.
fn is_unknown_file_system(code: i32) -> bool {
    matches!(code, 5027 | 5030)
}

/// The remedy for what only the log explains.
pub(super) const SEE_LOG: &str = "see cufile.log in the folder of the run";

/// The remedy for a failed call.
fn remedy(call: &str, code: i32) -> &'static str {
    match code {
        -22 | 5002 if call == "cuFileDriverOpen" => {
            "check the syntax of cufile.json (CUFILE_ENV_PATH_JSON, else /etc/cufile.json)"
        }
        5027 | 5030 if call == REGISTER => {
            "libcufile looks up the file system in udev's data: in a container, mount /run/udev \
             read-only from the host (`-v /run/udev:/run/udev:ro`); it takes local files on ext4 \
             and xfs in every version, on tmpfs and overlay from 1.16 on"
        }
        5001 | 5010 | 5033 | 5048 => {
            "load the nvidia-fs driver (`modprobe nvidia-fs`) or enable PCI P2PDMA; without \
             --require-gds cuFile may use its POSIX compatibility mode"
        }
        5007 | 5009 | 5029 => "check the GPU with `nvidia-smi` and `stormlp doctor`",
        5008 | 5018 | 5027 => {
            "use a file system that GPUDirect Storage supports (ext4 mounted data=ordered or xfs \
             on NVMe, with /run/udev readable)"
        }
        5011 => "check that the NVIDIA driver is loaded: `nvidia-smi`",
        5012..=5015 | 5047 => "this is a bug in stormlp unless cufile.log says otherwise",
        5019 | 5020 => "open the file with O_DIRECT",
        5025 => "check the permissions of the file and of /dev/nvidia-fs*",
        5036 | 5043 | -12 => {
            "use smaller --io-size, fewer --threads or --no-register: pinned GPU memory (BAR1) or \
             host memory is used up"
        }
        5037 => "use a lower --queue-depth",
        5038 => "set execution.parallel_io in cufile.json, or use --path gds",
        5049 => "the batch interface has no direct route here; allow compatibility mode",
        _ => SEE_LOG,
    }
}

/// Name and meaning of cuFile's own codes.
fn name_and_text(code: i32) -> Option<(&'static str, &'static str)> {
    let mut rows = CODES.lines().filter_map(|row| row.split_once(' '));
    let (_, row) = rows.find(|(of, _)| of.parse() == Ok(code))?;
    row.split_once(' ')
}

/// cuFile's codes: number, name without `CU_FILE_`, meaning.
const CODES: &str = "\
0 SUCCESS no error
5001 DRIVER_NOT_INITIALIZED the nvidia-fs driver is not loaded
5002 DRIVER_INVALID_PROPS a property is invalid, or cufile.json is malformed
5003 DRIVER_UNSUPPORTED_LIMIT a property is out of its range
5004 DRIVER_VERSION_MISMATCH nvidia-fs and libcufile do not fit each other
5005 DRIVER_VERSION_READ_ERROR the version of nvidia-fs cannot be read
5006 DRIVER_CLOSING the driver is being closed
5007 PLATFORM_NOT_SUPPORTED no GPUDirect Storage on this platform
5008 IO_NOT_SUPPORTED no GPUDirect Storage on this file
5009 DEVICE_NOT_SUPPORTED no GPUDirect Storage on this GPU
5010 NVFS_DRIVER_ERROR a request to nvidia-fs failed
5011 CUDA_DRIVER_ERROR a call to the CUDA driver failed
5012 CUDA_POINTER_INVALID not a device pointer
5013 CUDA_MEMORY_TYPE_INVALID not a memory type that cuFile accepts
5014 CUDA_POINTER_RANGE_ERROR the range exceeds the allocation
5015 CUDA_CONTEXT_MISMATCH another CUDA context is current
5016 INVALID_MAPPING_SIZE beyond the largest pinned size
5017 INVALID_MAPPING_RANGE beyond the mapped size
5018 INVALID_FILE_TYPE not a file of a supported type
5019 INVALID_FILE_OPEN_FLAG the file was opened with flags cuFile refuses
5020 DIO_NOT_SET the file was not opened with O_DIRECT
5022 INVALID_VALUE an argument is invalid
5023 MEMORY_ALREADY_REGISTERED the memory is registered already
5024 MEMORY_NOT_REGISTERED the memory is not registered
5025 PERMISSION_DENIED no permission for the driver or the file
5026 DRIVER_ALREADY_OPEN the driver is open already
5027 HANDLE_NOT_REGISTERED the file could not be registered, or is not
5028 HANDLE_ALREADY_REGISTERED the file is registered already
5029 DEVICE_NOT_FOUND the GPU was not found
5030 INTERNAL_ERROR an internal error of libcufile
5031 GETNEWFD_FAILED no new file descriptor could be created
5033 NVFS_SETUP_ERROR nvidia-fs or the CUDA driver could not be set up
5034 IO_DISABLED the configuration disables GPUDirect Storage on this file
5035 BATCH_SUBMIT_FAILED the batch could not be submitted
5036 GPU_MEMORY_PINNING_FAILED GPU memory could not be pinned
5037 BATCH_FULL the batch's queue is full
5038 ASYNC_NOT_SUPPORTED stream operations are not supported here
5039 INTERNAL_BATCH_SETUP_ERROR setting up a batch failed
5040 INTERNAL_BATCH_SUBMIT_ERROR submitting a batch failed
5041 INTERNAL_BATCH_GETSTATUS_ERROR asking for a batch's status failed
5042 INTERNAL_BATCH_CANCEL_ERROR cancelling a batch failed
5043 NOMEM_ERROR out of memory
5044 IO_ERROR the transfer failed
5045 INTERNAL_BUF_REGISTER_ERROR registering the buffer failed
5046 HASH_OPR_ERROR an internal table of libcufile failed
5047 INVALID_CONTEXT_ERROR the CUDA context is invalid
5048 NVFS_INTERNAL_DRIVER_ERROR nvidia-fs failed internally
5049 BATCH_NOCOMPAT_ERROR the batch needs compatibility mode, which is off";

#[cfg(test)]
mod tests {
    use super::*;

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
            let error = CuFileError::Call { call: REGISTER, code, cuda_code: 0 };
            assert!(error.to_string().ends_with("does not recognise the file system of the file"));
            assert!(error.remedy().contains("-v /run/udev:/run/udev:ro"), "{}", error.remedy());
        }
        let elsewhere = CuFileError::Call { call: "cuFileDriverOpen", code: 5030, cuda_code: 0 };
        assert!(elsewhere.to_string().contains("an internal error"), "{elsewhere}");
    }

    #[test]
    fn a_malformed_configuration_is_named() {
        for code in [-22, 5002] {
            let error = CuFileError::Call { call: "cuFileDriverOpen", code, cuda_code: 0 };
            assert!(error.remedy().contains("cufile.json"), "{error}");
        }
    }
}
