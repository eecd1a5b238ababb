//! Variables by which modules come from elsewhere than the code says.

/// What their names begin with, with `*`, or are. Names of proxies are read in small letters, too.
const ELSEWHERE: [&str; 27] = [
    // Hosts that stand for others, and arguments such as `-from-module`.
    "TF_CLI_CONFIG_FILE",
    "TERRAFORM_CONFIG",
    "TF_CLI_ARGS*",
    // What was fetched before.
    "TF_DATA_DIR",
    // Addresses that stand for others (`url.*.insteadOf`), and the programs that fetch.
    "GIT_*",
    "HG*",
    // Terragrunt's own: sources, files, the program that it runs.
    "TERRAGRUNT_*",
    "TG_*",
    // Where git and the tools look for their settings.
    "HOME",
    "XDG_*",
    // Who answers for a host.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "AWS_CA_BUNDLE",
    "AWS_ENDPOINT_URL*",
    // It can have such addresses.
    "AWS_CONFIG_FILE",
    "STORAGE_EMULATOR_HOST",
    // Read by shells before all else.
    "BASH_ENV",
    "ENV",
    // Libraries that git and ssh load. What the loader reads, and `PATH`, no stack sets.
    "GCONV_PATH",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    // Programs that git and ssh ask, and names that stand for other hosts.
    "SSH_ASKPASS*",
    "HOSTALIASES",
];

fn leads_elsewhere(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    ELSEWHERE.into_iter().any(|known| match known.strip_suffix('*') {
        Some(prefix) => upper.starts_with(prefix),
        None => upper == known,
    })
}

/// Why a run may not have variables of these names, if it may not.
pub fn environment_problem<'a>(
    project: &str,
    patterns: &[String],
    names: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    if patterns.is_empty() {
        return None;
    }
    let named: Vec<&str> = names.into_iter().filter(|name| leads_elsewhere(name)).collect();
    (!named.is_empty()).then(|| {
        format!(
            "attributes.environment: {} can have modules taken from elsewhere than the code says, and project {project} names from \
             where they may be taken (limit moduleSources)",
            named.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_lead_elsewhere_are_named() {
        let any = ["*".to_owned()];
        for (name, refused) in [
            ("TF_CLI_CONFIG_FILE", true),
            ("TF_CLI_ARGS", true),
            ("TF_CLI_ARGS_init", true),
            ("GIT_CONFIG_COUNT", true),
            ("GIT_SSH_COMMAND", true),
            ("git_ssh", true),
            ("TERRAGRUNT_SOURCE", true),
            ("TG_SOURCE", true),
            ("HOME", true),
            ("https_proxy", true),
            ("AWS_ENDPOINT_URL_S3", true),
            ("AWS_CONFIG_FILE", true),
            ("AWS_CA_BUNDLE", true),
            ("STORAGE_EMULATOR_HOST", true),
            ("GCONV_PATH", true),
            ("OPENSSL_CONF", true),
            ("SSH_ASKPASS", true),
            ("ssh_askpass_require", true),
            ("HOSTALIASES", true),
            ("NO_PROXY", false),
            ("PYTHONPATH", false),
            ("SSH_AUTH_SOCK", false),
            ("TF_VAR_home", false),
            ("TF_LOG", false),
            ("AWS_REGION", false),
            ("HOMEPAGE", false),
            ("ENVIRONMENT", false),
        ] {
            let told = environment_problem("shop", &any, ["A", name]);
            assert_eq!(told.is_some(), refused, "{name}");
            assert!(told.is_none_or(|told| told.contains(name)), "{name}");
            assert_eq!(environment_problem("shop", &[], [name]), None);
        }
    }
}
