import { Button, Checkbox, Group, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useBlocker } from '@tanstack/react-router';
import { IconEdit, IconPrinter } from '@tabler/icons-react';
import { useEffect, useMemo, useRef, useState } from 'react';
import { parse, stringify, type ScalarTag } from 'yaml';

import { explain } from '../lib/client';
import { meQuery } from '../lib/me';
import { quoted, visible } from '../lib/text';
import { Command, Copy } from '../parts/action';
import { Panel, Waiting } from '../parts/page';
import { Name } from '../parts/text';
import { rightQuery, WhyNot } from './act';
import { MANAGER } from './actions';
import { decoded } from './details';
import { comparison, reader, writer } from './editor';
import { plainNumbers } from './exact';
import { merged } from './merge';
import { at, mapAt, type KubeObject } from './objects';
import { kubeJson, KubeError, kubePath, type Kind } from './request';

interface YamlProps {
  handle: string;
  kind: Kind;
  object: KubeObject;
}

/** An object as YAML; and, by right, a change to it that the server tries before it is made. */
export default function Yaml(props: YamlProps) {
  // What somebody typed is of nobody else who signs in in this tab.
  const me = useQuery(meQuery);
  return me.isPending ? <Waiting lines={8} /> : <Shown {...props} who={me.data?.me?.id ?? ''} />;
}

function Shown({ handle, kind, object, who }: YamlProps & { who: string }) {
  const isSecret = kind.id === 'secrets';
  const { namespace, name } = object.metadata;
  const store = `draft ${JSON.stringify([who, handle, kind.id, namespace ?? '', name])}`;
  const [draft, setDraft] = useState<Draft | undefined>(() => (isSecret ? undefined : readDraft(store)));
  const [hasFields, setHasFields] = useState(false);
  const [hasValues, setHasValues] = useState(!isSecret);
  const right = { verb: 'update', kind, namespace, name };
  const may = useQuery(rightQuery(handle, right));
  const text = useMemo(() => yamlOf(hasValues ? object : masked(object), hasFields), [object, hasFields, hasValues]);
  const keep = (next: Draft | undefined) => {
    setDraft(next);
    // The values of a secret are kept nowhere but on this page.
    if (!isSecret) writeDraft(store, next);
  };
  if (draft) return <Edit handle={handle} kind={kind} object={object} draft={draft} keep={keep} />;
  const unless = hasValues ? undefined : 'Its values are hidden. Show them first: what is not shown cannot be written back.';
  return (
    <Panel
      title="YAML"
      aside={
        <Group gap="sm" data-no-print>
          {isSecret && (
            <Checkbox
              size="xs"
              label="Show values"
              checked={hasValues}
              onChange={({ currentTarget }) => setHasValues(currentTarget.checked)}
            />
          )}
          <Checkbox
            size="xs"
            label="Managed fields"
            checked={hasFields}
            onChange={({ currentTarget }) => setHasFields(currentTarget.checked)}
          />
          <Copy text={text} label="Copy the YAML" />
          <Button variant="default" leftSection={<IconPrinter size={14} />} onClick={() => window.print()} visibleFrom="sm">
            Print
          </Button>
          {may.data?.allowed === false || unless !== undefined || !kind.verbs.includes('update') ? (
            <WhyNot
              cluster={handle}
              label="Edit"
              right={right}
              unless={may.data?.allowed === false ? undefined : (unless ?? 'The API takes no changes to it.')}
            />
          ) : (
            <Button
              variant="default"
              leftSection={<IconEdit size={14} />}
              loading={may.isPending}
              onClick={() => keep({ text: yamlOf(object, false), base: yamlOf(object, false) })}
            >
              Edit
            </Button>
          )}
        </Group>
      }
    >
      <Reader label="YAML" text={text} />
    </Panel>
  );
}

interface Draft {
  text: string;
  /** What was there when the change was begun, or last taken over. */
  base: string;
}

type Stage = { at: 'writes' } | { at: 'reviews'; before: string; after: string; body: KubeObject };

function Edit({ handle, kind, object, draft, keep }: YamlProps & { draft: Draft; keep: (draft: Draft | undefined) => void }) {
  const queries = useQueryClient();
  const [stage, setStage] = useState<Stage>({ at: 'writes' });
  const [error, setError] = useState<unknown>();
  const [isBusy, setBusy] = useState(false);
  const { namespace, name } = object.metadata;
  const current = useMemo(() => yamlOf(object, false), [object]);
  const hasStatus = kind.subresources.some((sub) => sub.name === 'status');
  const theirs = useMemo(() => core(current, hasStatus), [current, hasStatus]);
  const mine = useMemo(() => core(draft.base, hasStatus), [draft.base, hasStatus]);
  const isDirty = draft.text !== draft.base;
  // Of other kinds the draft is here again when one comes back; a secret is kept nowhere.
  const isSecret = kind.id === 'secrets';
  useBlocker({
    shouldBlockFn: () => isSecret && isDirty && !window.confirm('Throw your changes away?'),
    enableBeforeUnload: isDirty,
    disabled: !isDirty,
  });

  const read = () =>
    kubeJson<KubeObject>(kubePath(handle, kind, { namespace, name }), { wanted: { verb: 'get', kind, namespace, name } });
  const put = async (body: KubeObject, dryRun: boolean) => {
    try {
      return await putOn(body, dryRun);
    } catch (failed) {
      if (!(failed instanceof KubeError) || failed.status !== 409) throw failed;
      const now = await read();
      // Only what its controllers write has changed: no conflict for a person.
      if (core(yamlOf(now, false), hasStatus) !== mine) throw failed;
      return putOn({ ...body, metadata: { ...body.metadata, resourceVersion: now.metadata.resourceVersion ?? '' } }, dryRun);
    }
  };
  const putOn = (body: KubeObject, dryRun: boolean) => {
    const query = { fieldManager: MANAGER, fieldValidation: 'Strict', ...(dryRun && { dryRun: 'All' }) };
    const wanted = { verb: 'update', kind, namespace, name };
    return kubeJson<KubeObject>(kubePath(handle, kind, { namespace, name, query }), { method: 'PUT', body, wanted });
  };
  const attempt = async (work: () => Promise<void>) => {
    setBusy(true);
    setError(undefined);
    try {
      await work();
    } catch (failed) {
      setError(failed);
    } finally {
      setBusy(false);
    }
  };
  const review = () =>
    attempt(async () => {
      const typed = readObject(draft.text, object);
      // Without a version the server would write over whatever is there.
      const version = typed.metadata.resourceVersion ?? objectOf(draft.base).metadata.resourceVersion ?? '';
      const body = { ...typed, metadata: { ...typed.metadata, resourceVersion: version } };
      const after = await put(body, true);
      setStage({ at: 'reviews', before: mine, after: core(yamlOf(after, false), hasStatus), body });
    });
  const write = (body: KubeObject) =>
    attempt(async () => {
      await put(body, false);
      keep(undefined);
      notifications.show({ message: visible(`${name} is changed`) });
      await queries.invalidateQueries({ queryKey: ['kubernetes', handle] });
    });
  /** What was typed stays; it is to be tried upon what is there now. */
  const takeOver = () =>
    attempt(async () => {
      const now = await read();
      await queries.invalidateQueries({ queryKey: ['kubernetes', handle, 'object'] });
      const ours = { ...readObject(draft.text, object) };
      ours.metadata = {
        ...ours.metadata,
        ...(now.metadata.resourceVersion !== undefined && { resourceVersion: now.metadata.resourceVersion }),
      };
      const plain = objectOf(yamlOf(now, false));
      const text = yamlOf(merged(objectOf(draft.base), ours, plain) as KubeObject, false);
      keep({ text, base: yamlOf(now, false) });
      setStage({ at: 'writes' });
    });
  const isConflict = error instanceof KubeError && error.status === 409;
  const isStale = theirs !== mine;
  const failed = error === undefined ? undefined : explain(error);
  return (
    <Panel
      title={stage.at === 'writes' ? 'Change the YAML' : 'What the server would make of it'}
      aside={
        <Group gap="sm">
          {stage.at === 'writes' ? (
            <>
              <Button
                variant="default"
                onClick={() => (!isDirty || window.confirm('Throw your changes away?')) && keep(undefined)}
              >
                Cancel
              </Button>
              <Button loading={isBusy} disabled={!isDirty} onClick={() => void review()}>
                Review
              </Button>
            </>
          ) : (
            <>
              <Button variant="default" onClick={() => setStage({ at: 'writes' })}>
                Back
              </Button>
              <Button loading={isBusy} onClick={() => void write(stage.body)}>
                Write
              </Button>
            </>
          )}
        </Group>
      }
    >
      {(failed !== undefined || isStale) && (
        <div role="alert" style={{ padding: 12, borderBottom: '1px solid var(--line)' }}>
          {isConflict || (isStale && failed === undefined) ? (
            <>
              <Text size="sm" fw={600}>
                Somebody changed it meanwhile. Nothing that you typed is lost.
              </Text>
              {isConflict && (
                <Text size="sm">
                  <Name of={failed?.what ?? ''} />
                </Text>
              )}
              <Text size="sm" mb="sm">
                Their change, below. Yours can be put on top of it: what only they changed stays theirs, what both changed becomes
                yours.
              </Text>
              <Comparison label="What they changed" old={mine} text={theirs} />
              <Button mt="sm" variant="default" loading={isBusy} onClick={() => void takeOver()}>
                Put mine on top
              </Button>
            </>
          ) : (
            failed && (
              <Text size="sm" style={{ color: 'var(--tone-bad)', overflowWrap: 'anywhere' }}>
                <Name of={failed.what.trim()} />. {error instanceof KubeError ? failed.next : 'Correct it and review again.'} What
                you typed stays here.
              </Text>
            )
          )}
        </div>
      )}
      {stage.at === 'writes' ? (
        <Writer key={draft.base} text={draft.text} onChange={(text) => keep({ ...draft, text })} />
      ) : (
        <>
          <Comparison label="What would change" old={stage.before} text={stage.after} />
          <div style={{ padding: 12 }}>
            {stage.before === stage.after && <Text size="sm">The server would change nothing.</Text>}
            <Command line={`kubectl replace --validate=strict -f ${quoted(`${name}.yaml`)}`} />
          </div>
        </>
      )}
    </Panel>
  );
}

/** Of the text that one typed, an object of the same name and kind; else an error in words. */
function readObject(text: string, object: KubeObject): KubeObject {
  const read: unknown = objectOf(text);
  const meta = at(read, 'metadata');
  if (typeof meta !== 'object' || meta === null || Array.isArray(meta)) throw new Error('this is no object with metadata');
  const same = (field: 'name' | 'namespace') => at(meta, field) === object.metadata[field];
  if (!same('name') || !same('namespace')) {
    throw new Error('its name and namespace cannot be changed: create another object instead');
  }
  return read as KubeObject;
}

/** What a person can change of an object: its version, and a status that its controllers write, change all the time. */
function core(text: string, hasStatus: boolean): string {
  const object = objectOf(text);
  const metadata = { ...object.metadata };
  delete metadata.resourceVersion;
  delete metadata.generation;
  const { status, ...rest } = object;
  return yamlOf({ ...rest, metadata, ...(!hasStatus && status !== undefined && { status }) }, false);
}

function yamlOf(object: KubeObject, hasFields: boolean): string {
  const { apiVersion, kind, metadata, ...rest } = object;
  const { managedFields, ...meta } = metadata;
  const shown = { apiVersion, kind, metadata: hasFields ? { ...meta, managedFields } : meta, ...rest };
  // A text that other readers, kubectl among them, would take for a truth value, a number or a time is quoted.
  return stringify(shown, { lineWidth: 0, aliasDuplicateObjects: false, compat: 'yaml-1.1' });
}

/** `0644` is a mode for kubectl and for whoever types it, not six hundred and forty-four. */
const octal: ScalarTag = {
  tag: 'tag:yaml.org,2002:int',
  default: true,
  test: /^0[0-7]+$/,
  resolve: (text) => Number.parseInt(text, 8),
};

function objectOf(text: string): KubeObject {
  // Whole numbers keep their digits: those that JavaScript's numbers cannot hold stay `bigint`.
  return plainNumbers(
    parse(text, { maxAliasCount: 100, intAsBigInt: true, customTags: (tags) => [octal, ...tags] }),
  ) as KubeObject;
}

function masked(object: KubeObject): KubeObject {
  const hidden = (values: Record<string, string> | undefined) =>
    values && Object.fromEntries(Object.entries(values).map(([name, value]) => [name, `(hidden, ${decoded(value).size} bytes)`]));
  const annotations = Object.fromEntries(
    Object.entries(object.metadata.annotations ?? {}).map(([name, value]) => [
      name,
      name.endsWith('last-applied-configuration') ? '(hidden: it holds the values)' : value,
    ]),
  );
  const data = hidden(mapAt(object, 'data'));
  return {
    ...object,
    metadata: { ...object.metadata, ...(object.metadata.annotations && { annotations }) },
    ...(data && { data }),
  };
}

function readDraft(key: string): Draft | undefined {
  try {
    const draft = JSON.parse(sessionStorage.getItem(key) ?? 'null') as Partial<Draft> | null;
    return typeof draft?.text === 'string' && typeof draft.base === 'string' ? { text: draft.text, base: draft.base } : undefined;
  } catch {
    return undefined;
  }
}

/** In this tab, through a sign-in or a crash. */
function writeDraft(key: string, draft: Draft | undefined): void {
  try {
    if (draft) sessionStorage.setItem(key, JSON.stringify(draft));
    else sessionStorage.removeItem(key);
  } catch {
    // Full: the page still has it.
  }
}

function Reader({ label, text }: { label: string; text: string }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!place.current) return;
    const view = reader(place.current, label, text);
    return () => view.destroy();
  }, [label, text]);
  return <div ref={place} />;
}

function Comparison({ label, old, text }: { label: string; old: string; text: string }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!place.current) return;
    const view = comparison(place.current, label, old, text);
    return () => view.destroy();
  }, [label, old, text]);
  return <div ref={place} />;
}

function Writer({ text, onChange }: { text: string; onChange: (text: string) => void }) {
  const place = useRef<HTMLDivElement>(null);
  const tell = useRef(onChange);
  const first = useRef(text);
  useEffect(() => {
    tell.current = onChange;
    first.current = text;
  });
  useEffect(() => {
    if (!place.current) return;
    const view = writer(place.current, 'YAML to change', first.current, (typed) => tell.current(typed));
    view.focus();
    return () => view.destroy();
  }, []);
  return <div ref={place} />;
}
