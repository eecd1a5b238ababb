import { paths } from '../paths';
import { Empty, Panel } from '../parts/page';
import { Name } from '../parts/text';
import { Go } from './go';
import classes from './object.module.css';
import { at, listAt, textAt, type KubeObject } from './objects';

const DEEPEST = 6;
const MOST = 400;

interface Field {
  path: string;
  type: string;
  isRequired: boolean;
  words: string;
}

/** What objects of a custom kind may say, as its definition tells. */
export function Schema({ handle, definition }: { handle: string; definition: KubeObject }) {
  const versions = listAt(definition, 'spec', 'versions');
  const version = versions.find((one) => at(one, 'storage') === true) ?? versions[0];
  const fields: Field[] = [];
  for (const part of ['spec', 'status']) {
    const schema = at(version, 'schema', 'openAPIV3Schema', 'properties', part);
    if (schema !== undefined) walk(schema, part, false, 0, fields);
  }
  return (
    <>
      <Panel title="Its objects">
        <p style={{ padding: '8px 12px', margin: 0, fontSize: 13 }}>
          <Go to={paths.kubernetes(handle, { kind: definition.metadata.name })}>
            All <Name of={textAt(definition, 'spec', 'names', 'plural') ?? ''} />
          </Go>
          . Versions: <Name of={versions.map((one) => textAt(one, 'name') ?? '').join(', ')} />
        </p>
      </Panel>
      <Panel title={`Fields of ${textAt(version, 'name') ?? 'it'}`}>
        {fields.length === 0 ? (
          <Empty title="Its definition names no fields" />
        ) : (
          <table className={classes['table']}>
            <thead>
              <tr>
                <th scope="col">Field</th>
                <th scope="col">Type</th>
                <th scope="col">Meaning</th>
              </tr>
            </thead>
            <tbody>
              {fields.slice(0, MOST).map(({ path, type, isRequired, words }) => (
                <tr key={path}>
                  <td>
                    <Name of={path} />
                    {isRequired && ' (required)'}
                  </td>
                  <td>
                    <Name of={type} />
                  </td>
                  <td>
                    <Name of={words.slice(0, 600)} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        {fields.length > MOST && <Empty title={`And ${fields.length - MOST} more: kubectl explain shows them`} />}
      </Panel>
    </>
  );
}

function walk(schema: unknown, path: string, isRequired: boolean, depth: number, into: Field[]): void {
  const type = textAt(schema, 'type') ?? (at(schema, 'x-kubernetes-int-or-string') === true ? 'number or string' : 'any');
  into.push({ path, type, isRequired, words: textAt(schema, 'description') ?? '' });
  if (depth >= DEEPEST) return;
  const inner = type === 'array' ? at(schema, 'items') : schema;
  const required = listAt(inner, 'required');
  for (const [name, below] of Object.entries(at(inner, 'properties') ?? {})) {
    walk(below, `${path}${type === 'array' ? '[]' : ''}.${name}`, required.includes(name), depth + 1, into);
  }
}
