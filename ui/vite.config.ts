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

/** Has the frame painted first, and writes into the page which files each of these needs besides the first script: `first.js` has them read with that one, not after it. */
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
        // Styles of all pages: `first.js` has them read, so that the frame is painted before they are there. In the head, where those of a
        // single page follow them.
        const links = [...html.matchAll(/^\s*<link rel="stylesheet"[^>]* href="(\/assets\/[^"]*)">\n/gm)];
        if (links.length === 0) throw new Error('the page has no style sheet of its own');
        const bare = links.reduce((text, [link]) => text.replace(link, ''), html);
        return bare.replace('__STYLES__', links.map(([, file]) => file).join(' ')).replace('__FIRST_FILES__', content.join(','));
      },
    },
  };
}

/**
 * Puts each GraphQL document where it is asked for. The generated module finds documents by their whole text, so every page would come with
 * all of them, twice.
 */
function documents(): Plugin {
  const generated = join(import.meta.dirname, 'src/generated');
  const texts = new Map<string, string>();
  return {
    name: 'documents',
    apply: 'build',
    enforce: 'pre',
    buildStart() {
      const named = new Map<string, string>();
      const values = readFileSync(join(generated, 'graphql.ts'), 'utf8');
      for (const [, name = '', text = ''] of values.matchAll(/^export const (\w+) = new TypedDocumentString\(`([^`]*)`/gm))
        // What indents it for a reader is sent with each request.
        named.set(name, text.trim().replaceAll(/\s*\n\s*/g, '\n'));
      const sources = readFileSync(join(generated, 'gql.ts'), 'utf8');
      for (const [, source = '""', name = ''] of sources.matchAll(/^\s+("(?:[^"\\]|\\.)*"): types\.(\w+),$/gm)) {
        const text = named.get(name);
        if (text !== undefined) texts.set(JSON.parse(source) as string, text);
      }
    },
    transform(code, id) {
      // Nothing of it is used any more; what it exports is made by calls, which a bundler keeps unless it is told.
      if (id.startsWith(generated)) return { code, map: null, moduleSideEffects: false };
      if (!/\.tsx?$/.test(id) || !code.includes('graphql(/* GraphQL */')) return null;
      const put = code.replaceAll(/\bgraphql\(\/\* GraphQL \*\/ `([^`]*)`\)/g, (_, source: string) => {
        const text = texts.get(source);
        if (text === undefined) throw new Error(`${id}: a document that is not in src/generated: npm run gen`);
        return `({ toString: () => ${JSON.stringify(text)} })`;
      });
      return { code: put, map: null };
    },
  };
}

/** For development: where a console runs, and a token for it. A build reads neither. */
const console_ = process.env['PLURAL_CONSOLE_URL'];
const token = process.env['PLURAL_CONSOLE_TOKEN'];

export default defineConfig({
  plugins: [documents(), react(), first(), compressed()],
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
