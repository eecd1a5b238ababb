import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin } from 'vite';

/** Beside each text file of `assets/`, the same as brotli and gzip: the console sends what the browser takes. */
function compressed(): Plugin {
  return {
    name: 'compressed',
    apply: 'build',
    closeBundle() {
      const folder = join(import.meta.dirname, 'dist/assets');
      for (const name of readdirSync(folder)) {
        if (!/\.(js|css|svg|json)$/.test(name)) continue;
        const file = join(folder, name);
        const bytes = readFileSync(file);
        writeFileSync(`${file}.br`, brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
        writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }));
      }
    },
  };
}

/** For development: where a console runs, and a token for it. A build reads neither. */
const console_ = process.env['PLURAL_CONSOLE_URL'];
const token = process.env['PLURAL_CONSOLE_TOKEN'];

export default defineConfig({
  plugins: [react(), compressed()],
  build: {
    target: 'es2022',
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    // Kilobytes of a chunk before compression. The budget of the first route is 300 KB after compression, about a third of this.
    chunkSizeWarningLimit: 900,
  },
  server: {
    host: '127.0.0.1',
    ...(console_ && {
      proxy: {
        '/gql': { target: console_, ws: true, headers: token ? { authorization: `Bearer ${token}` } : {} },
        '/auth': { target: console_ },
      },
    }),
  },
});
