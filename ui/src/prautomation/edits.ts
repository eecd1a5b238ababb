/** What an edit of a single value does, in words: as `plural pr automations describe` says it. */
export function editWords(file: string, edit: unknown): string {
  const said: Record<string, unknown> = typeof edit === 'object' && edit !== null ? { ...edit } : {};
  const word = (name: string) => {
    const value = said[name];
    return typeof value === 'string' ? value : '';
  };
  const place = word('path') === '' ? file : `${word('path')} in ${file}`;
  switch (said['op']) {
    case 'set':
      return `sets ${place}`;
    case 'delete':
      return `takes ${place} away`;
    case 'merge':
      return `puts values over ${place}`;
    case 'append':
      return `adds an item to ${place}`;
    case 'express':
      return `gives ${place} the expression ${word('expression')}`;
    case 'block': {
      const labels = Array.isArray(said['labels']) ? said['labels'].map(String) : [];
      return `makes or sets the block ${[word('block'), ...labels].join(' ')} in ${place}`;
    }
    default:
      // One of a newer console.
      return `changes ${place}`;
  }
}
