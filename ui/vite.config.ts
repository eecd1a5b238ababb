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

/** Pages that people open first, by their address, and the module of each. */
const FIRST = {
  '/': 'src/home/page.tsx',
  '/services': 'src/service/list.tsx',
  '/services/*/*': 'src/service/page.tsx',
  '/clusters': 'src/cluster/list.tsx',
  '/clusters/*': 'src/cluster/page.tsx',
};

/** Writes into the page which files each of these needs besides the first script: `first.js` has them read with that one, not after it. */
function first(): Plugin {
  return {
    name: 'first-files',
    apply: 'build',
    transformIndexHtml: {
      order: 'post',
      handler(html, { bundle = {} }) {
        const chunks = Object.values(bundle).filter((one) => one.type === 'chunk');
        const named = new Map(chunks.map((chunk) => [chunk.fileName, chunk]));
        const below = (name: string, files: Set<string>): Set<string> => {
          const chunk = named.get(name);
          if (!chunk || files.has(name)) return files;
          files.add(name);
          for (const style of chunk.viteMetadata?.importedCss ?? []) files.add(style);
          for (const next of chunk.imports) below(next, files);
          return files;
        };
        const entry = chunks.find(({ isEntry }) => isEntry);
        const loaded = below(entry?.fileName ?? '', new Set());
        const content = Object.entries(FIRST).map(([path, module]) => {
          const page =
            chunks.find(({ facadeModuleId }) => facadeModuleId?.endsWith(module)) ??
            chunks.find(({ moduleIds }) => moduleIds.some((id) => id.endsWith(module)));
          if (!page) throw new Error(`no chunk is that of ${module}`);
          const files = [...below(page.fileName, new Set())].filter((file) => !loaded.has(file));
          return [path, ...files.map((file) => `/${file}`)].join(' ');
        });
        return html.replace('__FIRST_FILES__', content.join(','));
      },
    },
  };
}

/** For development: where a console runs, and a token for it. A build reads neither. */
const console_ = process.env['PLURAL_CONSOLE_URL'];
const token = process.env['PLURAL_CONSOLE_TOKEN'];

export default defineConfig({
  plugins: [react(), first(), compressed()],
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
