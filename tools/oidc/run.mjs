// A certified OpenID Connect provider, and a browser that signs in with it, for tests.
//
//   run.mjs issuer PORT REDIRECT_URI     serves http://127.0.0.1:PORT until it is stopped
//   run.mjs browser CONSOLE ISSUER ACCOUNT [CODE]   signs in at CONSOLE with the provider "real", allows the login with CODE,
//                                            and prints what it saw as one JSON object
//   run.mjs passkeys CONSOLE ADDRESS EMAIL PASSWORD SECRET LINK   the same with a virtual authenticator: see passkeys.mjs

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
      await page.goto(`${console_url}/auth/account`);
    }
    seen.url = page.url();
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

if (what === 'issuer') await issuer(...rest);
else if (what === 'browser') await browser(...rest);
else if (what === 'passkeys') await (await import('./passkeys.mjs')).passkeys(...rest);
else { console.error('usage: run.mjs issuer PORT REDIRECT_URI | browser CONSOLE ISSUER ACCOUNT [CODE]'); process.exit(2); }
