import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { yaml } from '@codemirror/lang-yaml';
import { bracketMatching, foldGutter, foldKeymap, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language';
import { unifiedMergeView } from '@codemirror/merge';
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search';
import { EditorState, type Extension } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';

import { nonce } from '../lib/page';

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--tone-busy)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--tone-good)' },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword, tags.atom], color: 'var(--tone-warn)' },
  { tag: [tags.comment, tags.meta], color: 'var(--tone-none)' },
]);

const look = EditorView.theme({
  '&': { fontSize: '12px', backgroundColor: 'var(--panel)', color: 'inherit' },
  '.cm-scroller': { fontFamily: 'var(--mantine-font-family-monospace)', lineHeight: '18px', maxHeight: '70vh', overflow: 'auto' },
  '.cm-gutters': { backgroundColor: 'var(--panel)', color: 'var(--tone-none)', borderRight: '1px solid var(--line)' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--hover)' },
  '.cm-cursor': { borderLeftColor: 'currentColor' },
  '&.cm-focused .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'color-mix(in srgb, var(--tone-busy) 30%, transparent) !important',
  },
  '.cm-panels': { backgroundColor: 'var(--panel)', color: 'inherit' },
  '.cm-changedLine, .cm-insertedLine': { backgroundColor: 'color-mix(in srgb, var(--tone-good) 9%, transparent) !important' },
  '.cm-deletedChunk': { backgroundColor: 'color-mix(in srgb, var(--tone-bad) 9%, transparent) !important' },
  // Colour behind words would cost contrast: what changed in a line is underlined or struck through.
  '.cm-changedText': { background: 'none !important', textDecoration: 'underline' },
  '.cm-deletedText': { background: 'none !important', textDecoration: 'line-through' },
  '.cm-specialChar': { color: 'var(--tone-bad)' },
});

/** What all our editors have. Control and bidirectional characters are shown by name. */
function base(label: string): Extension[] {
  return [
    EditorView.cspNonce.of(nonce),
    EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
    lineNumbers(),
    highlightSpecialChars(),
    drawSelection(),
    foldGutter(),
    bracketMatching(),
    highlightSelectionMatches(),
    search({ top: true }),
    yaml(),
    syntaxHighlighting(colours),
    EditorView.lineWrapping,
    look,
    keymap.of([...searchKeymap, ...foldKeymap, ...defaultKeymap]),
  ];
}

/** Text to read, search and fold. */
export function reader(parent: HTMLElement, label: string, text: string): EditorView {
  const extensions = [...base(label), EditorState.readOnly.of(true)];
  return new EditorView({ parent, state: EditorState.create({ doc: text, extensions }) });
}

/** Text to change. Escape and then Tab leaves it. */
export function writer(parent: HTMLElement, label: string, text: string, changed: (text: string) => void): EditorView {
  const told = EditorView.updateListener.of((update) => {
    if (update.docChanged) changed(update.state.doc.toString());
  });
  const extensions = [
    ...base(label),
    history(),
    indentOnInput(),
    highlightActiveLine(),
    keymap.of([indentWithTab, ...historyKeymap]),
    told,
  ];
  return new EditorView({ parent, state: EditorState.create({ doc: text, extensions }) });
}

/** What would change: the new text, with the old lines above the new ones. */
export function comparison(parent: HTMLElement, label: string, old: string, text: string): EditorView {
  const merge = unifiedMergeView({ original: old, mergeControls: false, collapseUnchanged: { margin: 3, minSize: 6 } });
  const extensions = [...base(label), EditorState.readOnly.of(true), merge];
  return new EditorView({ parent, state: EditorState.create({ doc: text, extensions }) });
}
