import { setNonce } from 'get-nonce';

/** The nonce that the console wrote into this page: what makes style sheets while it runs needs it. */
export const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? '';
setNonce(nonce);

/** Exchanges the one-time code of `plural demo` for a session. The code leaves the address before anything else happens. */
export function followLink(): boolean {
  const code = /^#link=(.+)$/.exec(window.location.hash)?.[1];
  if (code === undefined) return false;
  window.history.replaceState(null, '', window.location.pathname + window.location.search);
  const form = document.createElement('form');
  form.method = 'post';
  form.action = '/auth/link';
  form.hidden = true;
  const field = document.createElement('input');
  field.name = 'code';
  field.value = decodeURIComponent(code);
  form.append(field);
  document.body.append(form);
  form.submit();
  return true;
}
