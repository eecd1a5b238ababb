/** How a notice (`Alert`) looks: its line and sign have the tone, its words are as those around it, so that they can be read in both schemes. */
export const noticeOf = (tone: 'bad' | 'warn' | 'busy') => ({
  root: { borderColor: `var(--tone-${tone})`, background: 'var(--panel)', color: 'var(--mantine-color-text)' },
  icon: { color: `var(--tone-${tone})` },
  title: { color: 'var(--mantine-color-text)' },
  message: { color: 'var(--mantine-color-text)' },
});
