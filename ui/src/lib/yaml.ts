const PLAIN = /^[A-Za-z_/][\w ./@+-]*$/;
const WORDS = /^(true|false|null|yes|no|on|off|y|n|~)$/i;

function scalar(value: unknown): string {
  if (typeof value !== 'string') return value === undefined ? 'null' : JSON.stringify(value);
  return PLAIN.test(value) && !WORDS.test(value) && !value.endsWith(' ') ? value : JSON.stringify(value);
}

/** A JSON value as YAML to read: what is not plain is quoted as JSON does, which YAML reads, too. */
export function toYaml(value: unknown, indent = ''): string {
  if (Array.isArray(value)) {
    if (value.length === 0) return ' []';
    return value.map((item) => `\n${indent}-${nested(item, `${indent}  `, true)}`).join('');
  }
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value);
    if (entries.length === 0) return ' {}';
    return entries.map(([key, item]) => `\n${indent}${scalar(key)}:${nested(item, `${indent}  `, false)}`).join('');
  }
  if (typeof value === 'string' && value.includes('\n') && !/[^\n\t\x20-\uffff]/.test(value) && !/^\s/.test(value)) {
    const lines = value.replace(/\n$/, '').split('\n');
    return ` |${value.endsWith('\n') ? '' : '-'}${lines.map((line) => `\n${line === '' ? '' : indent + line}`).join('')}`;
  }
  return ` ${scalar(value)}`;
}

/** A mapping in a list begins on the line of its dash. */
function nested(item: unknown, indent: string, isItem: boolean): string {
  const text = toYaml(item, indent);
  return isItem && text.startsWith(`\n${indent}`) ? ` ${text.slice(1 + indent.length)}` : text;
}

/** A whole document. */
export function document(value: unknown): string {
  return `${toYaml(value).replace(/^[\n ]/, '')}\n`;
}
