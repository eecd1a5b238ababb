// Runs before the first paint, while the page's own scripts are on their way.
(() => {
  // The colours that the reader chose, as the library keeps the choice.
  let chosen = null;
  try {
    chosen = localStorage.getItem('mantine-color-scheme-value');
  } catch {
    // A browser that keeps nothing: as the system has it.
  }
  const isDark = chosen === 'dark' || (chosen !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.dataset.mantineColorScheme = isDark ? 'dark' : 'light';

  // A script or a style that cannot be read or run leaves the frame for good: it says so. Once the page is drawn, there is no such place.
  addEventListener(
    'error',
    ({ target }) => {
      const place = document.querySelector('.frame > main');
      const isNeeded = target === window || target instanceof HTMLScriptElement || target?.dataset?.first !== undefined;
      if (!place || !isNeeded) return;
      const said = document.createElement('p');
      said.setAttribute('role', 'alert');
      said.textContent = 'The web console could not start: one of its files cannot be read or run. Load the page again.';
      place.removeAttribute('aria-busy');
      place.replaceChildren(said);
    },
    true,
  );

  // Styles of all pages. The parser's own links would keep the frame from being painted; for these only the scripts wait (main.tsx).
  const styles = document.querySelector('meta[name="styles"]')?.content ?? '';
  for (const file of styles.split(' ').filter((one) => one.startsWith('/assets/'))) {
    const link = document.createElement('link');
    link.rel = 'stylesheet';
    link.crossOrigin = '';
    link.href = file;
    link.dataset.first = '';
    document.head.append(link);
  }

  // Files of the page that this address shows: the build wrote them into the head, `/services/*/* a.js b.css,…`.
  const parts = location.pathname.split('/').filter((part) => part !== '');
  const path = `/${parts.map((part, at) => (at === 0 ? part : '*')).join('/')}`;
  const files = document.querySelector('meta[name="first-files"]')?.content ?? '';
  const mine = files.split(',').find((one) => one.startsWith(`${path} `));
  for (const file of mine?.split(' ').slice(1) ?? []) {
    const link = document.createElement('link');
    link.rel = file.endsWith('.css') ? 'preload' : 'modulepreload';
    if (link.rel === 'preload') link.as = 'style';
    // As the build's own links ask for it: else the browser reads it a second time.
    link.crossOrigin = '';
    link.href = file;
    document.head.append(link);
  }
})();
