import { Group } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { IconFilePlus, IconPencil, IconPlus, IconTrash } from '@tabler/icons-react';

import { ask } from '../lib/client';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { isOn } from '../parts/form';
import { Empty, Panel } from '../parts/page';
import { Shown } from '../parts/shown';
import { Table, type Columns } from '../parts/table';
import { Name } from '../parts/text';
import { commands, stackRight } from './commands';
import { Update } from './mutations';
import { follows } from './overview';
import { inputsQuery, type StackOne } from './queries';

interface Variable {
  name: string;
  value: string;
  secret?: boolean | null;
}

/** Variables of the environment of runs, and their files. What is secret, and what is in files, is written here and never shown. */
export function Environment({ stack }: { stack: StackOne }) {
  const { id, name } = stack;
  const query = useQuery(inputsQuery(name));
  const variables: Variable[] = query.data?.environment ?? [];
  const files = query.data?.files ?? [];
  const right = stackRight(name, 'update');
  const waits = query.data ? undefined : 'What it has now is not read yet: a change replaces the list as a whole.';
  // The list is replaced as a whole. What has no value in it keeps the one that it has.
  const set = (next: { name: string; value?: string | null; secret: boolean }[]) =>
    ask(Update, { id, attributes: { environment: next } });
  const others = (but: string) =>
    variables
      .filter((one) => one.name !== but)
      .map((one) => ({ name: one.name, secret: one.secret === true, value: one.secret === true ? null : one.value }));
  const put = (paths: string[], more: { path: string; content: string }[] = []) =>
    ask(Update, { id, attributes: { files: [...paths.map((path) => ({ path, content: null })), ...more] } });

  const columns: Columns<Variable> = [
    {
      id: 'name',
      header: 'Variable',
      meta: { track: 'minmax(120px, 1fr)' },
      cell: ({ row }) => <Name of={row.original.name} />,
    },
    {
      id: 'value',
      header: 'Value',
      meta: { track: 'minmax(120px, 2fr)' },
      cell: ({ row: { original: one } }) => (one.secret === true ? 'secret, never shown' : <Name of={one.value} />),
    },
    {
      id: 'do',
      header: '',
      meta: { track: '200px', from: 480 },
      cell: ({ row: { original: one } }) => (
        <Group gap="xs" wrap="nowrap">
          <Action
            noun="stack"
            isSmall
            label="Change"
            icon={IconPencil}
            right={right}
            explains={
              <>
                Runs get another value of <Name of={one.name} />. {follows(stack)}
              </>
            }
            fields={[
              {
                name: 'value',
                label: 'Value',
                kind: one.secret === true ? 'secret' : 'text',
                initial: one.secret === true ? '' : one.value,
                isRequired: one.secret === true,
              },
            ]}
            command={({ value = '' }) =>
              commands.update(
                name,
                one.secret === true ? `--secret-env ${quoted(one.name)}` : `--env ${quoted(`${one.name}=${value}`)}`,
              )
            }
            run={({ value = '' }) => set([...others(one.name), { name: one.name, value, secret: one.secret === true }])}
            done={`Changed ${one.name}`}
          />
          <Action
            noun="stack"
            isSmall
            isDangerous
            label="Remove"
            icon={IconTrash}
            right={right}
            explains={
              <>
                Runs have no <Name of={one.name} /> any more. {follows(stack)}
              </>
            }
            command={commands.update(name, `--unset-env ${quoted(one.name)}`)}
            run={() => set(others(one.name))}
            done={`Removed ${one.name}`}
          />
        </Group>
      ),
    },
  ];
  const fileColumns: Columns<{ path: string }> = [
    {
      id: 'path',
      header: 'File',
      meta: { track: 'minmax(160px, 2fr)' },
      cell: ({ row }) => <Name of={row.original.path} />,
    },
    {
      id: 'do',
      header: '',
      meta: { track: '200px', from: 480 },
      cell: ({ row: { original: file } }) => (
        <Group gap="xs" wrap="nowrap">
          <Action
            noun="stack"
            isSmall
            label="Replace"
            icon={IconPencil}
            right={right}
            explains={`What is in it now is not shown, and is replaced. ${follows(stack)}`}
            fields={[{ name: 'content', label: 'What is in it', kind: 'area', isRequired: true }]}
            command={commands.update(name, `--file-content ${quoted(`${file.path}=@FILE`)}`)}
            run={({ content = '' }) =>
              put(
                files.filter((path) => path !== file.path),
                [{ path: file.path, content }],
              )
            }
            done={`Replaced ${file.path}`}
          />
          <Action
            noun="stack"
            isSmall
            isDangerous
            label="Remove"
            icon={IconTrash}
            right={right}
            explains={`Runs do not have it any more. ${follows(stack)}`}
            command={commands.update(name, `--unset-file ${quoted(file.path)}`)}
            run={() => put(files.filter((path) => path !== file.path))}
            done={`Removed ${file.path}`}
          />
        </Group>
      ),
    },
  ];
  return (
    <>
      <Panel
        title="Environment"
        aside={
          <Action
            noun="stack"
            label="Add a variable"
            icon={IconPlus}
            right={right}
            unless={waits}
            explains={`Every command of a run gets it. A secret value is kept encrypted, hidden in logs, and shown to nobody again. ${follows(stack)}`}
            fields={[
              { name: 'name', label: 'Name', isRequired: true, placeholder: 'AWS_REGION' },
              { name: 'secret', label: 'The value is secret', kind: 'check', initial: 'yes' },
              { name: 'value', label: 'Value', kind: 'secret', isRequired: true, when: (values) => isOn(values, 'secret') },
              { name: 'open', label: 'Value', isRequired: true, when: (values) => !isOn(values, 'secret') },
            ]}
            command={(values) => {
              const added = values['name'] === '' ? 'NAME' : (values['name'] ?? '').trim();
              return commands.update(
                name,
                isOn(values, 'secret') ? `--secret-env ${quoted(added)}` : `--env ${quoted(`${added}=${values['open'] ?? ''}`)}`,
              );
            }}
            run={(values) => {
              const added = (values['name'] ?? '').trim();
              const secret = isOn(values, 'secret');
              return set([...others(added), { name: added, value: values[secret ? 'value' : 'open'] ?? '', secret }]);
            }}
            done="Added the variable"
          />
        }
      >
        <Shown query={query} what="its environment">
          <Table
            isShort
            label="Environment"
            hasHead={variables.length > 0}
            rows={variables}
            columns={columns}
            id={(one) => one.name}
            isWaiting={query.isPending}
            empty={<Empty title="No variables">Credentials of clouds and TF_VAR_… are given so.</Empty>}
          />
        </Shown>
      </Panel>
      <Panel
        title="Files"
        aside={
          <Action
            noun="stack"
            label="Add a file"
            icon={IconFilePlus}
            right={right}
            unless={waits}
            explains={`It is there in each run: relative to the folder in which the tool runs. It is kept encrypted, and shown to nobody again. ${follows(stack)}`}
            fields={[
              { name: 'path', label: 'Path', isRequired: true, placeholder: 'backend.hcl' },
              { name: 'content', label: 'What is in it', kind: 'area', isRequired: true },
            ]}
            command={(values) => commands.update(name, `--file-content ${quoted(`${values['path'] ?? ''}=@FILE`)}`)}
            run={(values) => {
              const path = (values['path'] ?? '').trim();
              return put(
                files.filter((one) => one !== path),
                [{ path, content: values['content'] ?? '' }],
              );
            }}
            done="Added the file"
          />
        }
      >
        <Shown query={query} what="its files">
          <Table
            isShort
            label="Files"
            hasHead={files.length > 0}
            rows={files.map((path) => ({ path }))}
            columns={fileColumns}
            id={({ path }) => path}
            isWaiting={query.isPending}
            empty={<Empty title="No files">Variable files, keys and settings that are not in git are given so.</Empty>}
          />
        </Shown>
      </Panel>
    </>
  );
}
