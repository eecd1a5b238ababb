import type { DataKeysQuery } from '../generated/graphql';
import { text, tracks } from '../parts/cells';
import { Empty } from '../parts/page';
import { Table, type Columns } from '../parts/table';
import { Ago } from '../parts/text';

type Key = NonNullable<DataKeysQuery['installationDataKeys']>[number];

const purposes = { SECRETS: 'secrets', RECORDINGS: 'recordings', ADDRESSES: 'addresses of gates' } as const;
const columns: Columns<Key> = [
  { id: 'purpose', header: 'Encrypts', meta: { track: 'minmax(100px, 1fr)' }, cell: ({ row }) => purposes[row.original.purpose] },
  {
    id: 'state',
    header: 'State',
    meta: { track: '120px' },
    cell: ({ row: { original: key } }) => (key.destroyedAt != null ? 'destroyed' : key.retiredAt != null ? 'retired' : 'in use'),
  },
  {
    id: 'by',
    header: 'Encrypted by',
    meta: tracks.wide,
    cell: ({ row }) => text([row.original.encryptedBy, row.original.version].filter((part) => part != null).join(', version ')),
  },
  { id: 'at', header: 'Created', meta: tracks.when, cell: ({ row }) => <Ago at={row.original.insertedAt} /> },
];

/** Data keys: what they seal, which key-encryption key opens them. The keys themselves are told to nobody. */
export function KeyTable({ keys }: { keys: Key[] }) {
  return (
    <Table
      isShort
      label="Data keys"
      rows={keys}
      columns={columns}
      id={({ id }) => id}
      empty={<Empty title="No data key yet">One is created with the first secret.</Empty>}
    />
  );
}
