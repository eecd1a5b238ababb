import { Stack, Text } from '@mantine/core';
import { useState } from 'react';

import { counted, visible } from '../lib/text';
import classes from './patch.module.css';
import { Name } from './text';

/** A file that a patch changes, with its part of the patch as `git diff` shows it. */
export interface PatchFile {
  path: string;
  change: 'CREATED' | 'CHANGED' | 'DELETED';
  diff: string;
}

const words: Record<PatchFile['change'], string> = { CREATED: 'New', CHANGED: 'Changed', DELETED: 'Deleted' };
/** So many files are drawn, and so many lines of one; the patch itself has all. */
const FILES = 200;
const LINES = 2000;
/** So many files are open at first. */
const OPEN = 10;

interface Line {
  sign: '+' | '-' | '@' | ' ';
  text: string;
}

/** The marks around lines that both sides of a merge changed. */
const MARK = /^\+(<<<<<<< repository|=======|>>>>>>> automation)$/;

/** The lines of a difference below its head, which says what the heading of the file says. */
function linesOf(diff: string): Line[] {
  const lines = diff.replace(/\n$/, '').split('\n');
  const first = lines.findIndex((line) => line.startsWith('@@'));
  // A file without text has no such lines, and its head says so.
  if (first < 0) return lines.filter((line) => !/^(diff|index|---|\+\+\+) /.test(line)).map((text) => ({ sign: ' ', text }));
  return lines.slice(first).map((text) => {
    const sign = text.charAt(0);
    return { sign: sign === '+' || sign === '-' || sign === '@' ? sign : ' ', text };
  });
}

/** What a patch changes, file by file. Each can be closed. */
export function Patch({ files }: { files: PatchFile[] }) {
  return (
    <Stack gap="xs">
      {files.slice(0, FILES).map((file, at) => (
        <File key={file.path} file={file} isOpenFirst={at < OPEN} />
      ))}
      {files.length > FILES && (
        <Text size="sm" c="dimmed">
          And {counted(files.length - FILES, 'file')} more: the patch has all of them.
        </Text>
      )}
    </Stack>
  );
}

function File({ file: { path, change, diff }, isOpenFirst }: { file: PatchFile; isOpenFirst: boolean }) {
  const [isOpen, setOpen] = useState(isOpenFirst);
  const lines = linesOf(diff);
  const count = (sign: Line['sign']) => lines.filter((line) => line.sign === sign).length;
  const isMarked = lines.some(({ text }) => text === '+<<<<<<< repository');
  return (
    <details className={classes['file']} open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <span className={classes['word']} data-change={change}>
          {words[change]}
        </span>
        <Name of={path} />
        {isMarked && <span className={classes['conflicts']}>Has conflicts</span>}
        <span className={classes['counts']}>
          +{count('+')} −{count('-')}
        </span>
      </summary>
      {isOpen && (
        <div className={classes['lines']} tabIndex={0} role="region" aria-label={`Changes of ${visible(path)}`}>
          {lines.slice(0, LINES).map(({ sign, text }, at) => (
            <code key={at} className={classes['line']} data-sign={sign} data-mark={(isMarked && MARK.test(text)) || undefined}>
              {visible(text) || ' '}
            </code>
          ))}
          {lines.length > LINES && (
            <code className={classes['line']}>{counted(lines.length - LINES, 'more line')}: the patch has all of them.</code>
          )}
        </div>
      )}
    </details>
  );
}
