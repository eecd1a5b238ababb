import { Autocomplete, Button, Checkbox, Drawer, Text, TextInput } from '@mantine/core';
import { useDisclosure, useMediaQuery } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { IconList } from '@tabler/icons-react';
import { useCallback, useMemo, useState } from 'react';

import { useNow } from '../lib/now';
import { ago, counted, visible } from '../lib/text';
import { paths } from '../paths';
import { Search } from '../parts/filter';
import { Empty, Waiting } from '../parts/page';
import { Name } from '../parts/text';
import { kindsQuery, listed, sections } from './discovery';
import { Frame, Trouble } from './frame';
import { Go } from './go';
import { Grid } from './grid';
import classes from './list.module.css';
import { useListing, type Listed, type Row } from './listing';
import { namespacesQuery } from './queries';
import type { Kind } from './request';

const route = getRouteApi('/clusters/$handle/kubernetes');

/** Objects of one kind in a cluster, as its API server prints them, kept as they are. */
export function KubernetesPage() {
  const { handle } = route.useParams();
  const { kind: wanted = 'pods' } = route.useSearch();
  const kinds = useQuery(kindsQuery(handle));
  const isNarrow = useMediaQuery('(max-width: 48em)');
  const [opened, { open, close }] = useDisclosure(false);
  if (kinds.data === undefined) {
    return (
      <Frame handle={handle} title="Kubernetes">
        {kinds.isError ? (
          <Trouble handle={handle} error={kinds.error} what="what the cluster serves" retry={() => void kinds.refetch()} />
        ) : (
          <Waiting lines={12} />
        )}
      </Frame>
    );
  }
  const all = listed(kinds.data);
  const kind = all.find(({ id }) => id === wanted);
  const choose = (
    <Button variant="default" className={classes['narrow'] ?? ''} leftSection={<IconList size={14} />} onClick={open}>
      Kinds
    </Button>
  );
  return (
    <Frame handle={handle} title="Kubernetes" isFull>
      <div className={classes['sides']}>
        {!isNarrow && <Kinds kinds={all} chosen={wanted} />}
        <section className={classes['main']} aria-label="Objects">
          {kind === undefined ? (
            <>
              {choose}
              <Empty title="The cluster serves no such kind">
                <Name of={wanted} /> is not among what its API server lists to you. Its API may not answer now, or its definition
                is gone.
              </Empty>
            </>
          ) : (
            <Objects key={`${handle} ${kind.id}`} handle={handle} kind={kind} choose={choose} />
          )}
        </section>
      </div>
      <Drawer
        opened={opened && isNarrow}
        onClose={close}
        title="Kinds"
        size="xs"
        padding="sm"
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        <div
          style={{ height: 'calc(100dvh - 90px)', display: 'flex' }}
          onClick={(event) => (event.target as HTMLElement).closest('a') && close()}
        >
          <Kinds kinds={all} chosen={wanted} />
        </div>
      </Drawer>
    </Frame>
  );
}

function Kinds({ kinds, chosen }: { kinds: Kind[]; chosen: string }) {
  const [typed, setTyped] = useState('');
  const q = typed.trim().toLowerCase();
  const shown = useMemo(
    () =>
      sections(
        kinds.filter(({ id, kind, shortNames }) => [id, kind, ...shortNames].some((name) => name.toLowerCase().includes(q))),
      ),
    [kinds, q],
  );
  return (
    <nav className={classes['kinds']} aria-label="Kinds">
      <TextInput
        type="search"
        aria-label="Search kinds"
        placeholder="Search kinds"
        value={typed}
        onChange={({ currentTarget }) => setTyped(currentTarget.value)}
      />
      <div className={classes['scroll']} tabIndex={0} role="group" aria-label="Kinds of objects">
        {shown.map(([title, ones]) => (
          <section key={title}>
            <h2>
              <Name of={title} />
            </h2>
            <ul>
              {ones.map((kind) => (
                <li key={kind.id}>
                  <Link
                    from="/clusters/$handle/kubernetes"
                    to="."
                    search={({ ns }) => ({ kind: kind.id, ...(ns !== undefined && { ns }) })}
                    preload={false}
                    title={visible(kind.id)}
                    {...(kind.id === chosen && { 'aria-current': 'page' as const })}
                    activeProps={{}}
                  >
                    <Name of={kind.kind} />
                  </Link>
                </li>
              ))}
            </ul>
          </section>
        ))}
        {shown.length === 0 && <Empty title="No kind has this in its name" />}
      </div>
    </nav>
  );
}

function Objects({ handle, kind, choose }: { handle: string; kind: Kind; choose: React.ReactNode }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const namespace = kind.isNamespaced ? search.ns : undefined;
  const listing = useListing({ cluster: handle, kind, namespace, labelSelector: search.l });
  const set = useCallback(
    (change: Partial<typeof search>) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true }),
    [navigate],
  );
  const q = (search.q ?? '').toLowerCase();
  const rows = useMemo(() => (q === '' ? listing.rows : listing.rows.filter(({ text }) => text.includes(q))), [listing.rows, q]);
  const to = useCallback(
    ({ name, namespace: ns }: Row) => paths.kubernetesObject(handle, { kind: kind.id, ns: ns === '' ? undefined : ns, name }),
    [handle, kind.id],
  );
  const isFiltered = q !== '' || search.l !== undefined;
  const failed = listing.error !== undefined && listing.rows.length === 0;
  return (
    <>
      <div className={classes['tools']}>
        {choose}
        {kind.isNamespaced && <Namespaces handle={handle} value={search.ns} onChange={(ns) => set({ ns })} />}
        <Search
          label={`Search ${visible(kind.resource)}`}
          value={search.q ?? ''}
          onChange={(value) => set({ q: value || undefined })}
        />
        <Labels value={search.l} onChange={(l) => set({ l })} />
        <Checkbox
          size="xs"
          label="All columns"
          checked={search.wide === true}
          onChange={({ currentTarget }) => set({ wide: currentTarget.checked || undefined })}
        />
        {kind.id === 'pods' && search.ns !== undefined && (
          <Go to={paths.kubernetesLogs(handle, { ns: search.ns, l: search.l })}>
            <Text component="span" size="sm">
              Logs of these
            </Text>
          </Go>
        )}
      </div>
      {failed ? (
        <Trouble handle={handle} error={listing.error} what={visible(kind.resource)} />
      ) : (
        <Grid
          label={visible(kind.kind)}
          columns={listing.columns}
          rows={rows}
          sort={search.sort}
          onSort={(sort) => set({ sort })}
          hasNamespaces={kind.isNamespaced && namespace === undefined}
          isWide={search.wide === true}
          isWaiting={listing.state === 'reading' && listing.rows.length === 0}
          to={to}
          empty={
            <Empty
              title={
                isFiltered
                  ? 'Nothing matches'
                  : `No ${visible(kind.resource)}${namespace === undefined ? '' : ' in this namespace'}`
              }
            >
              {isFiltered ? 'Change the search or the labels.' : 'They appear here when somebody or something creates them.'}
            </Empty>
          }
          foot={<Foot listing={listing} shown={rows.length} noun={kind.kind.toLowerCase()} />}
        />
      )}
    </>
  );
}

function Foot({ listing, shown, noun }: { listing: Listed; shown: number; noun: string }) {
  const now = useNow();
  const all = listing.rows.length;
  const heard = ago(new Date(listing.heardAt).toISOString(), now);
  const words = {
    reading: `reading, about ${listing.remaining.toLocaleString('en')} more`,
    watching: `watched, as of ${heard} ago`,
    polling: `read ${heard} ago, again every 30 seconds`,
    lost: `connection lost; as of ${heard} ago; trying again`,
  };
  return (
    <>
      <span role="status">
        {shown === all ? counted(all, visible(noun)) : `${shown.toLocaleString('en')} of ${all.toLocaleString('en')}`}
      </span>
      <span role={listing.state === 'lost' ? 'alert' : undefined}>{words[listing.state]}</span>
    </>
  );
}

/** One namespace or all of them. Who may not list namespaces can still name one. */
export function Namespaces(props: {
  handle: string;
  value: string | undefined;
  onChange: (namespace: string | undefined) => void;
}) {
  const { handle, value, onChange } = props;
  const known = useQuery(namespacesQuery(handle)).data ?? [];
  const [typed, setTyped] = useState(value ?? '');
  const [was, setWas] = useState(value);
  if (was !== value) {
    setWas(value);
    setTyped(value ?? '');
  }
  const choose = (text: string) => onChange(text.trim() === '' ? undefined : text.trim());
  return (
    <Autocomplete
      size="xs"
      w={190}
      aria-label="Namespace"
      placeholder="All namespaces"
      data={known}
      limit={100}
      value={typed}
      clearable
      onChange={(text) => {
        setTyped(text);
        if (text === '') choose('');
      }}
      onOptionSubmit={choose}
      onBlur={() => choose(typed)}
      onKeyDown={({ key }) => key === 'Enter' && choose(typed)}
      maxLength={63}
    />
  );
}

function Labels({ value, onChange }: { value: string | undefined; onChange: (labels: string | undefined) => void }) {
  const [typed, setTyped] = useState(value ?? '');
  const [was, setWas] = useState(value);
  if (was !== value) {
    setWas(value);
    setTyped(value ?? '');
  }
  const choose = () => onChange(typed.trim() === '' ? undefined : typed.trim());
  return (
    <TextInput
      aria-label="Labels"
      placeholder="Labels: app=web, tier in (a, b)"
      w={210}
      value={typed}
      maxLength={1000}
      onChange={({ currentTarget }) => setTyped(currentTarget.value)}
      onBlur={choose}
      onKeyDown={({ key }) => key === 'Enter' && choose()}
    />
  );
}
