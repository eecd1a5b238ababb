// Serves dist before a console whose program was built without it, or with an earlier one.
//
//   front.mjs CONSOLE    prints the address
import { existsSync, readFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { join } from 'node:path';

const dist = join(import.meta.dirname, '../dist');
const RESERVED = /^\/(gql|auth|k8s|ext|v1)(\/|$)/;
const TYPES = { js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' };
// As the console sends it: see crates/ui.
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-test'; connect-src 'self'; img-src 'self' data:; font-src 'self'; manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/** The same paths on a free port; `cut(true)` breaks what goes to the console, as a lost network does. */
export async function front(target) {
  const { hostname, port, host, origin } = new URL(target);
  let isCut = false;
  const open = new Set();
  const own = (headers) => ({
    ...headers,
    host,
    ...(headers.origin && { origin }),
    ...(headers.referer && { referer: `${origin}/` }),
  });
  const server = http.createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    if (RESERVED.test(pathname)) {
      if (isCut) return request.socket.destroy();
      const upstream = http.request({ hostname, port, path: request.url, method: request.method, headers: own(request.headers) });
      upstream.on('response', (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
        answer.on('error', () => response.destroy());
      });
      upstream.on('error', () => response.destroy());
      response.on('close', () => upstream.destroy());
      return request.pipe(upstream);
    }
    const type = TYPES[pathname.split('.').at(-1)];
    const file = join(dist, pathname);
    if (type && existsSync(file)) return response.writeHead(200, { 'content-type': type }).end(readFileSync(file));
    if (type) return response.writeHead(404).end();
    const page = readFileSync(join(dist, 'index.html'), 'utf8').replace('__CSP_NONCE__', 'test');
    return response.writeHead(200, { 'content-type': 'text/html', 'content-security-policy': CSP }).end(page);
  });
  server.on('connection', (socket) => {
    open.add(socket);
    socket.on('close', () => open.delete(socket));
  });
  server.on('upgrade', (request, socket) => {
    if (isCut) return socket.destroy();
    const upstream = net.connect(port, hostname, () => {
      const headers = Object.entries(own(request.headers)).map(([name, value]) => `${name}: ${value}\r\n`);
      upstream.write(`${request.method} ${request.url} HTTP/1.1\r\n${headers.join('')}\r\n`);
      upstream.pipe(socket);
      socket.pipe(upstream);
    });
    for (const [one, other] of [
      [upstream, socket],
      [socket, upstream],
    ]) {
      one.on('error', () => other.destroy());
      one.on('close', () => other.destroy());
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://localhost:${server.address().port}`,
    cut(cut) {
      isCut = cut;
      if (cut) for (const socket of open) socket.destroy();
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

if (process.argv[1] === import.meta.filename) console.log((await front(process.argv[2])).url);
