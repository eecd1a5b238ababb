//! `plural login --device`: the program shows a code, and somebody allows it in a browser.

use std::os::unix::fs::PermissionsExt as _;

use anyhow::Context as _;
use plural_testkit::{TestDatabase, each_database, eventually};
use reqwest::redirect::Policy;

use crate::{
    program::{ConsoleProcess, Home},
    world::{EMAIL, PASSWORD, PATIENCE},
};

each_database!(a_program_is_let_in_by_a_code);

async fn a_program_is_let_in_by_a_code(database: TestDatabase) -> anyhow::Result<()> {
    let home = Home::new()?;
    let console =
        ConsoleProcess::start(&home, database.is_postgres().then(|| database.url()), "info").await?;
    let url = console.url();
    let told = home.path().join("told");
    let mut command = home.plural(&["login", "--url", &url, "--device"]);
    command.stdin(std::process::Stdio::null()).stderr(std::fs::File::create(&told)?);
    let mut login = command.spawn()?;
    let code = eventually(PATIENCE, async || {
        let told = std::fs::read_to_string(&told).unwrap_or_default();
        let code = told.lines().find_map(|line| line.strip_prefix("and allow the login with the code "));
        code.map(str::to_owned).ok_or(told)
    })
    .await;
    let text = std::fs::read_to_string(&told)?;
    assert!(text.contains(&format!("open {url}/auth/device in a browser")), "{text}");

    let http = reqwest::Client::builder().tls_certs_only([]).redirect(Policy::none()).build()?;
    let send = async |path: &str, cookie: &str, body: String| {
        let request = http.post(format!("{url}{path}")).header("origin", &url).header("cookie", cookie);
        request.header("content-type", "application/x-www-form-urlencoded").body(body).send().await
    };
    let encoded = |text: &str| text.replace('@', "%40").replace(' ', "+");
    let fields = format!("email={}&password={}", encoded(EMAIL), encoded(PASSWORD));
    let signed_in = send("/auth/sign-in", "", fields).await?;
    let cookie = signed_in.headers().get("set-cookie").context("no session")?.to_str()?;
    let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
    let page = http.get(format!("{url}/auth/device?user_code={code}")).header("cookie", &cookie);
    let page = page.send().await?.text().await?;
    assert!(page.contains("plural") && page.contains(&code) && page.contains(EMAIL), "{page}");
    let allowed = send("/auth/device", &cookie, format!("user_code={code}&decision=allow")).await?;
    assert_eq!(allowed.status(), 200);

    let ended = tokio::time::timeout(PATIENCE, login.wait()).await??;
    let text = std::fs::read_to_string(&told)?;
    assert!(ended.success() && text.contains(&format!("logged in to {url} as {EMAIL}")), "{text}");
    let profiles = home.path().join(".plural/profiles.yml");
    assert_eq!(std::fs::metadata(&profiles)?.permissions().mode() & 0o777, 0o600);
    assert!(!text.contains("console-"), "{text}");
    let whoami = home.run(&["whoami"]).await?;
    assert!(whoami.code == Some(0) && whoami.out.contains(EMAIL), "{whoami:?}");
    let out = home.run(&["logout"]).await?;
    assert_eq!(out.code, Some(0), "{out:?}");
    Ok(())
}
