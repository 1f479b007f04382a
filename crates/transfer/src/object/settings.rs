//! Where the object store is and who asks: from the environment and `~/.aws`, as AWS tools have it.

use std::fmt;
use std::path::{Path, PathBuf};

use rusty_s3::{Credentials, UrlStyle};
use url::Url;

use super::ini::Ini;
use crate::error::TransferError;

/// The endpoint and the credentials. The latter are never printed: they are in no report, plan,
/// error or log.
#[derive(Clone)]
pub struct Settings {
    /// At least one; all of them lead to the same store.
    pub(super) endpoints: Vec<Url>,
    pub(super) region: String,
    pub(super) credentials: Credentials,
    /// How the bucket stands in an address.
    pub(super) addressing: UrlStyle,
    pub(super) ca_bundle: Option<PathBuf>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.endpoints.iter().map(host).collect();
        write!(f, "{} ({} addressing)", hosts.join(", "), self.addressing())
    }
}

/// The sources of settings.
pub(super) struct Sources<'a> {
    /// The environment.
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
    /// The content of a file, if it can be read.
    pub(super) file: &'a dyn Fn(&Path) -> Option<String>,
}

impl Settings {
    /// The settings of this user.
    ///
    /// # Errors
    /// When the endpoint or the credentials are missing or cannot be used: there is no default.
    pub fn of_user() -> Result<Self, TransferError> {
        Self::of(&|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// The settings of an environment with these variables.
    ///
    /// # Errors
    /// As [`Self::of_user`].
    pub fn of(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, TransferError> {
        // Of any encoding: keys and most values are ASCII.
        let file = |path: &Path| Some(String::from_utf8_lossy(&std::fs::read(path).ok()?).into());
        Self::from(&Sources { variable, file: &file })
    }

    /// The settings in `sources`: a variable wins over a file.
    pub(super) fn from(sources: &Sources<'_>) -> Result<Self, TransferError> {
        let files = Files::read(sources);
        let variable = |names: &[&str]| names.iter().find_map(|name| (sources.variable)(name));
        let text = endpoint(sources, &files).ok_or_else(|| {
            lacks(
                "no endpoint is named, and there is no default",
                "set AWS_ENDPOINT_URL, such as http://127.0.0.1:9000",
            )
        })?;
        let addressing = variable(&["AWS_S3_ADDRESSING_STYLE"])
            .or_else(|| files.config("s3.addressing_style").map(str::to_string));
        let found = Self {
            endpoints: text.split(',').map(|one| checked(one.trim())).collect::<Result<_, _>>()?,
            region: variable(&["AWS_REGION", "AWS_DEFAULT_REGION"])
                .or_else(|| files.config("region").map(str::to_string))
                .map_or_else(|| "us-east-1".to_string(), |region| region.trim().to_string()),
            credentials: credentials(sources, &files)?,
            addressing: match addressing.as_deref() {
                // As MLPerf's tools have it where an endpoint is named.
                None | Some("path" | "auto") => UrlStyle::Path,
                Some("virtual") => UrlStyle::VirtualHost,
                Some(other) => {
                    return Err(lacks(
                        format!("`{other}` is not an addressing style"),
                        "use path or virtual for AWS_S3_ADDRESSING_STYLE",
                    ));
                }
            },
            ca_bundle: variable(&["AWS_CA_BUNDLE"])
                .or_else(|| files.config("ca_bundle").map(str::to_string))
                .map(PathBuf::from),
        };
        // They are parts of headers.
        let words =
            [Some(&*found.region), Some(found.credentials.key()), found.credentials.token()];
        let is_word = |word: &str| word.bytes().all(|byte| byte.is_ascii_graphic());
        if !words.iter().flatten().all(|word| is_word(word)) {
            return Err(lacks(
                "region, access key or token has a blank, or a letter that is not ASCII",
                "correct it: each is one word",
            ));
        }
        Ok(found)
    }

    /// The same for each endpoint alone.
    pub fn of_each_endpoint(self) -> Vec<Self> {
        let alone = |url: &Url| Self { endpoints: vec![url.clone()], ..self.clone() };
        self.endpoints.iter().map(alone).collect()
    }

    /// How buckets are addressed, by its name in the settings of AWS tools.
    pub fn addressing(&self) -> &'static str {
        match self.addressing {
            UrlStyle::Path => "path",
            UrlStyle::VirtualHost => "virtual",
        }
    }
}

/// Scheme, host and port of an endpoint.
pub(super) fn host(endpoint: &Url) -> String {
    let host = endpoint.host_str().unwrap_or_default();
    let port = endpoint.port_or_known_default().unwrap_or_default();
    format!("{}://{host}:{port}", endpoint.scheme())
}

/// The user's two files and the profile in use.
struct Files {
    config: Ini,
    credentials: Ini,
    profile: String,
}

impl Files {
    fn read(sources: &Sources<'_>) -> Self {
        let below_home = |name: &str| {
            (sources.variable)("HOME").map(|home| PathBuf::from(home).join(".aws").join(name))
        };
        let file = |variable: &str, name: &str| {
            let path = (sources.variable)(variable).map(PathBuf::from).or_else(|| below_home(name));
            let text = path.and_then(|path| (sources.file)(&path));
            Ini::parse(&text.unwrap_or_default())
        };
        Self {
            config: file("AWS_CONFIG_FILE", "config"),
            credentials: file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            profile: (sources.variable)("AWS_PROFILE").unwrap_or_else(|| "default".to_string()),
        }
    }

    fn config(&self, key: &str) -> Option<&str> {
        self.config.get(&[&format!("profile {}", self.profile), &self.profile], key)
    }

    fn secret(&self, key: &str) -> Option<&str> {
        self.credentials.get(&[&self.profile], key).or_else(|| self.config(key))
    }
}

fn endpoint(sources: &Sources<'_>, files: &Files) -> Option<String> {
    let variable = |name: &str| (sources.variable)(name);
    let ignored = variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
        .is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let of_service = || {
        let services = format!("services {}", files.config("services")?);
        files.config.get(&[&services], "s3.endpoint_url")
    };
    let configured = || of_service().or_else(|| files.config("endpoint_url")).map(str::to_string);
    // MLPerf's loaders have a variable for several.
    variable("S3_ENDPOINT_URIS")
        .or_else(|| variable("AWS_ENDPOINT_URL_S3"))
        .or_else(|| variable("AWS_ENDPOINT_URL"))
        .or_else(|| configured().filter(|_| !ignored))
}

/// An address that requests can be made of. It is not repeated in errors, since it may contain a
/// password.
fn checked(text: &str) -> Result<Url, TransferError> {
    let wrong = |what: &str| {
        lacks(
            format!("the endpoint (AWS_ENDPOINT_URL) {what}"),
            "name it as scheme, host and port: http://127.0.0.1:9000 or http://[::1]:9000",
        )
    };
    let url = Url::parse(text).map_err(|error| wrong(&format!("is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("is neither http:// nor https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("contains a user name, which S3 does not use"));
    }
    Ok(url)
}

fn credentials(sources: &Sources<'_>, files: &Files) -> Result<Credentials, TransferError> {
    let variable = |name: &str| (sources.variable)(name);
    let secret = |key: &str| files.secret(key).map(str::to_string);
    let (key, value, token) = match variable("AWS_ACCESS_KEY_ID") {
        Some(key) => (Some(key), variable("AWS_SECRET_ACCESS_KEY"), variable("AWS_SESSION_TOKEN")),
        None => (
            secret("aws_access_key_id"),
            secret("aws_secret_access_key"),
            secret("aws_session_token"),
        ),
    };
    let (Some(key), Some(value)) = (key, value) else {
        return Err(lacks(
            format!("no credentials are set (profile `{}`)", files.profile),
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE to a profile in \
             ~/.aws/credentials",
        ));
    };
    // In a header a line break at the end, as files have it, would be the end of the header.
    let [key, value] = [key, value].map(|text| text.trim().to_string());
    Ok(match token {
        Some(token) => Credentials::new_with_token(key, value, token.trim()),
        None => Credentials::new(key, value),
    })
}

fn lacks(reason: impl Into<String>, remedy: &str) -> TransferError {
    TransferError::Unavailable {
        what: "the object store".to_string(),
        reason: reason.into(),
        remedy: remedy.to_string(),
    }
}
