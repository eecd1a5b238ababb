// A certified OpenID Connect provider, and a browser that signs in with it, for tests.
//
//   run.mjs issuer PORT REDIRECT_URI     serves http://127.0.0.1:PORT until it is stopped
//   run.mjs browser CONSOLE ISSUER ACCOUNT [CODE]   signs in at CONSOLE with the provider "real", allows the login with CODE,
//                                            and prints what it saw as one JSON object
//   run.mjs passkeys CONSOLE ADDRESS EMAIL PASSWORD SECRET LINK   the same with a virtual authenticator: see passkeys.mjs
//   run.mjs keycloak CONSOLE ACCOUNT PASSWORD [PAGE]   signs in at CONSOLE with the provider "keycloak", allows what PAGE asks, and
//                                            prints what it saw in the same way

const [what, ...rest] = process.argv.slice(2);

async function issuer(port, redirect) {
  const { Provider } = await import('oidc-provider');
  const url = `http://127.0.0.1:${port}`;
  const groups = { ada: ['ops'], grace: ['dev', 'ops'] };
  const provider = new Provider(url, {
    clients: [{
      client_id: 'plural', client_secret: 'a secret of the console', redirect_uris: [redirect],
      grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
    }],
    findAccount: (_ctx, id) => ({
      accountId: id,
      claims: () => ({
        sub: id, email: `${id}@example.com`, email_verified: true, name: `${id} of the provider`, groups: groups[id] ?? [],
      }),
    }),
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'], groups: ['groups'] },
    scopes: ['openid', 'offline_access', 'email', 'profile', 'groups'],
    features: { devInteractions: { enabled: true } },
    issueRefreshToken: () => true,
    pkce: { required: () => true },
  });
  provider.listen(Number(port), '127.0.0.1', () => console.log('up'));
}

async function browser(console_url, issuer_url, account, code) {
  const { chromium } = await import('playwright-core');
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
  const seen = { problems: [] };
  let judged = true;
  try {
    const context = await browser.newContext();
    const page = await context.newPage();
    page.setDefaultTimeout(30_000);
    page.on('console', (message) => {
      // The provider's own pages are not ours to judge.
      if (judged && message.type() === 'error' && page.url().startsWith(console_url)) seen.problems.push(message.text());
    });
    const target = code ? `/auth/device?user_code=${code}` : '/auth/sign-in';
    await page.goto(`${console_url}${target}`);
    await page.getByRole('link', { name: 'Sign in with real' }).click();
    await page.locator('input[name=login]').fill(account);
    await page.locator('input[name=password]').fill('any');
    await page.locator('button[type=submit]').click();
    const consent = page.locator('button[type=submit]');
    await page.waitForLoadState();
    if (!page.url().startsWith(console_url)) await consent.click();
    await page.waitForURL((url) => url.href.startsWith(console_url));
    if (code) {
      seen.asked = await page.locator('main').innerText();
      await page.getByRole('button', { name: 'Allow it' }).click();
      seen.allowed = await page.locator('main').innerText();
    }
    seen.url = page.url();
    await page.goto(`${console_url}/auth/account`);
    seen.account = await page.locator('main').innerText();
    seen.cookies = (await context.cookies(console_url)).filter(({ name }) => name.startsWith('plural-')).map(({ name, httpOnly, sameSite }) => ({ name, httpOnly, sameSite }));
    // What a page of the console may do, and one of another origin may not. This one has no policy that keeps it from asking.
    judged = false;
    await page.goto(`${console_url}/healthz`);
    const ask = async (headers) => page.evaluate(async ([url, headers]) => {
      const body = JSON.stringify({ query: '{ me { email groups { name } } }' });
      const sent = { method: 'POST', credentials: 'include', headers: { 'content-type': 'application/json', ...headers }, body };
      const answer = await fetch(`${url}/gql`, sent);
      return [answer.status, await answer.json()];
    }, [console_url, headers]).catch(() => [0, null]);
    seen.gql = await ask({ 'x-plural-csrf': '1' });
    seen.unmarked = await ask({});
    await page.goto(`${issuer_url}/.well-known/openid-configuration`);
    seen.foreign = await ask({ 'x-plural-csrf': '1' });
    await page.goto(`${console_url}/auth/account`);
    await page.getByRole('button', { name: 'Sign out' }).click();
    seen.out = await page.locator('main').innerText();
    await page.goto(`${console_url}/auth/account`);
    seen.after = page.url();
  } finally {
    await browser.close();
  }
  console.log(JSON.stringify(seen));
}

// Signs in at CONSOLE with the provider "keycloak". With an address, that page of the console is what the person came for: they allow
// what it asks. Without one they look at their account, sign out here, then there, and try to sign in again.
async function keycloak(console_url, account, password, target) {
  const { chromium } = await import('playwright-core');
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
  const seen = {};
  try {
    const context = await browser.newContext({ ignoreHTTPSErrors: true });
    const page = await context.newPage();
    page.setDefaultTimeout(30_000);
    await page.goto(target ?? `${console_url}/auth/sign-in`);
    await page.getByRole('link', { name: 'Sign in with keycloak' }).click();
    await page.locator('#username').fill(account);
    await page.locator('#password').fill(password);
    await page.locator('#kc-login').click();
    const refused = page.locator('#input-error-username, .kc-feedback-text').first();
    const is_ours = (url) => url.href.startsWith(console_url);
    await Promise.race([page.waitForURL(is_ours), refused.waitFor()]);
    if (!is_ours(new URL(page.url()))) {
      seen.refused = await refused.innerText();
      return;
    }
    if (target) {
      seen.asked = await page.locator('main').innerText();
      await page.getByRole('button', { name: 'Allow it' }).click();
      // Either page that says how it went has an address without the code.
      await page.waitForURL((url) => !url.search.includes('user_code'));
      seen.url = page.url();
      seen.allowed = await page.locator('body').innerText();
      return;
    }
    await page.goto(`${console_url}/auth/account`);
    seen.account = await page.locator('main').innerText();
    await page.goto(`${console_url}/healthz`);
    seen.gql = await page.evaluate(async (url) => {
      const body = JSON.stringify({ query: '{ me { email groups { name } } }' });
      const headers = { 'content-type': 'application/json', 'x-plural-csrf': '1' };
      const answer = await fetch(`${url}/gql`, { method: 'POST', credentials: 'include', headers, body });
      return [answer.status, await answer.json()];
    }, console_url);
    await page.goto(`${console_url}/auth/account`);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('link', { name: 'sign out there, too' }).click();
    // Keycloak asks, since it is not shown its ID token, and sends back.
    await page.locator('#kc-logout').click();
    await page.waitForURL((url) => url.href.startsWith(console_url));
    seen.back = page.url();
    await page.getByRole('link', { name: 'Sign in with keycloak' }).click();
    // Who is signed in there would be sent on.
    await page.locator('#password').waitFor();
    seen.again = await page.locator('#kc-page-title').innerText();
  } finally {
    await browser.close();
    console.log(JSON.stringify(seen));
  }
}

if (what === 'issuer') await issuer(...rest);
else if (what === 'browser') await browser(...rest);
else if (what === 'passkeys') await (await import('./passkeys.mjs')).passkeys(...rest);
else if (what === 'keycloak') await keycloak(...rest);
else {
  console.error('usage: run.mjs issuer PORT REDIRECT_URI | browser CONSOLE ISSUER ACCOUNT [CODE] | keycloak CONSOLE ACCOUNT PASSWORD [PAGE]');
  process.exit(2);
}
