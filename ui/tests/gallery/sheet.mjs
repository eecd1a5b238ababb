// One page with all pictures, small, to look through quickly: a row for a page and its rows, a column for a look.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

const STYLE = `
:root { color-scheme: light dark; font: 13px/20px system-ui, sans-serif; }
body { margin: 16px; }
h2 { font-size: 14px; margin: 24px 0 4px; position: sticky; top: 0; background: Canvas; }
h2[data-bad] { color: #c92a2a; }
.looks { display: flex; flex-wrap: wrap; gap: 8px; align-items: flex-start; }
figure { margin: 0; }
img { display: block; height: 220px; border: 1px solid GrayText; }
figcaption { color: GrayText; }
pre { white-space: pre-wrap; }
`;
const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');

/** Writes `index.html` beside the pictures: `{ page, rows, look, file }` each. */
export function sheet(folder, pictures, problems) {
  const groups = new Map();
  for (const picture of pictures) {
    const title = `${picture.page}, ${picture.rows} rows`;
    groups.set(title, [...(groups.get(title) ?? []), picture]);
  }
  const shown = [...groups].map(([title, some]) => {
    const figures = some.map(
      ({ file, look }) =>
        `<figure><a href="${file}"><img loading="lazy" src="${file}" alt="${escaped(`${title}, ${look}`)}"></a><figcaption>${look}</figcaption></figure>`,
    );
    const isBad = problems.some((problem) => problem.startsWith(`${title},`));
    return `<h2${isBad ? ' data-bad' : ''}>${escaped(title)}${isBad ? ': see the problems' : ''}</h2>\n<div class="looks">${figures.join('\n')}</div>`;
  });
  const told = problems.length === 0 ? '<p>No problems.</p>' : `<pre>${escaped(problems.join('\n'))}</pre>`;
  const page = `<!doctype html><meta charset="utf-8"><title>Gallery</title><style>${STYLE}</style>
<h1>${pictures.length} pictures</h1>
${told}
${shown.join('\n')}
`;
  writeFileSync(join(folder, 'index.html'), page);
}
