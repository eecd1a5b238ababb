import { yaml } from '@codemirror/lang-yaml';
import { foldGutter, HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { MergeView, unifiedMergeView } from '@codemirror/merge';
import { EditorState, type Extension } from '@codemirror/state';
import { drawSelection, EditorView, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { useEffect, useRef } from 'react';

import { nonce } from '../lib/page';
import classes from './code.module.css';

/** Colours are those of the page, so that both schemes work without another theme. */
const style = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--tone-busy)' },
  { tag: [tags.string, tags.content], color: 'var(--mantine-color-text)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--tone-warn)' },
  { tag: [tags.comment, tags.meta], color: 'var(--tone-none)' },
]);

const base: Extension[] = [
  EditorView.cspNonce.of(nonce),
  EditorState.readOnly.of(true),
  EditorView.editable.of(false),
  EditorView.contentAttributes.of({ tabindex: '0', 'aria-label': 'Text' }),
  lineNumbers(),
  foldGutter(),
  drawSelection(),
  yaml(),
  syntaxHighlighting(style),
  EditorView.lineWrapping,
];

/** What a screen reader calls it: the first of several names counts. */
const named = (label: string): Extension => EditorView.contentAttributes.of({ 'aria-label': label });

/** YAML to read: folds, selects, copies. */
export function Yaml({ text, label }: { text: string; label: string }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!place.current) return;
    const view = new EditorView({
      doc: text,
      parent: place.current,
      extensions: [named(label), base],
    });
    return () => view.destroy();
  }, [text, label]);
  return <div ref={place} className={classes['code']} />;
}

/** Two texts side by side, or one below the other where there is no room; what is equal is folded. */
export function Diff({ before, after, names }: { before: string; after: string; names: [before: string, after: string] }) {
  const place = useRef<HTMLDivElement>(null);
  const [left, right] = names;
  useEffect(() => {
    const parent = place.current;
    if (!parent) return;
    const collapseUnchanged = { margin: 3, minSize: 4 };
    if (parent.clientWidth < 720) {
      const merge = unifiedMergeView({ original: before, mergeControls: false, collapseUnchanged });
      const view = new EditorView({ doc: after, parent, extensions: [base, merge] });
      return () => view.destroy();
    }
    const side = (doc: string, label: string) => ({
      doc,
      extensions: [named(label), base],
    });
    const view = new MergeView({ a: side(before, left), b: side(after, right), parent, collapseUnchanged });
    return () => view.destroy();
  }, [before, after, left, right]);
  return (
    <div>
      <div className={classes['names']}>
        <span>{left}</span>
        <span>{right}</span>
      </div>
      <div ref={place} className={classes['code']} />
    </div>
  );
}
