import { Code } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { IconShieldCheck } from '@tabler/icons-react';

import { graphql } from '../generated';
import { ask } from '../lib/client';
import { quoted, visible } from '../lib/text';
import { Action } from '../parts/action';
import { Empty, Facts, Fault, Panel, Waiting } from '../parts/page';
import { asRows, rowsOf, type Values } from '../parts/values';

const Rules = graphql(/* GraphQL */ `
  query ProjectRules($id: ID!) {
    project(id: $id) {
      id
      stackRules {
        path
        rego
      }
    }
  }
`);
const SetRules = graphql(/* GraphQL */ `
  mutation SetProjectRules($projectId: ID!, $attributes: ProjectLimitsAttributes!) {
    setProjectLimits(projectId: $projectId, attributes: $attributes) {
      id
    }
  }
`);

const EXAMPLE = `package plural.stacks

deny contains {"msg": msg, "resource": change.address, "severity": "HIGH"} if {
    some change in input.resource_changes
    "delete" in change.change.actions
    msg := "nothing is deleted by a stack"
}`;

const files = (values: Values) =>
  rowsOf(values, 'rules').map((row) => ({ path: (row['path'] ?? '').trim(), rego: row['rego'] ?? '' }));

/** The files, and the command that reads them. */
function command(which: string, values: Values): string {
  const all = files(values);
  if (all.length === 0) return `plural cd projects stack-rules ${which} --clear`;
  const names = all.flatMap(({ path }) => (path === '' ? [] : [path])).join(', ');
  return `# policies has ${names === '' ? 'these files' : names} as above\nplural cd projects stack-rules ${which} --dir policies`;
}

/** What the plans of all stacks of a project are checked by. */
export function StackRules({ id, name }: { id: string; name: string }) {
  const query = useQuery({
    queryKey: ['projects', 'rules', id],
    queryFn: async ({ signal }) => ((await ask(Rules, { id }, signal)).project?.stackRules ?? []).flatMap((rule) => rule ?? []),
  });
  if (query.isPending) return <Waiting />;
  if (query.isError) return <Fault error={query.error} what="rules for stacks" retry={() => void query.refetch()} />;
  const rules = query.data;
  const initial = asRows(rules.map(({ path, rego }) => ({ path, rego })));
  return (
    <Panel
      title="Rules for plans of its stacks"
      aside={
        <Action
          key={initial}
          noun="projects"
          label="Change"
          icon={IconShieldCheck}
          right={{ verb: 'limit', thing: `project/${name}` }}
          explains="In place of its rules so far. What they deny is refused in all of its stacks, whatever a stack says. Plans that wait for approval were checked by those before, and have to be made again."
          fields={[
            {
              name: 'rules',
              label: 'Files with rules in Rego',
              kind: 'list',
              each: 'file',
              hint: 'Try them before with plural cd stacks policy test: rules that do not compile refuse every plan',
              initial,
              row: () => [
                {
                  name: 'path',
                  label: 'Path',
                  isRequired: true,
                  placeholder: 'deletions.rego',
                  hint: 'Letters, digits, . _ - and /',
                },
                { name: 'rego', label: 'Rules', kind: 'area', isRequired: true, placeholder: EXAMPLE },
              ],
            },
          ]}
          command={(values) => command(quoted(name), values)}
          run={(values) => ask(SetRules, { projectId: id, attributes: { stackRules: files(values) } })}
          done="Changed the rules"
        />
      }
    >
      {rules.length === 0 ? (
        <Empty title="No rules">
          Plans of its stacks are checked only by the policy that a stack has of its own. Rules in Rego hold for all of them.
        </Empty>
      ) : (
        <Facts
          facts={rules.map(({ path, rego }): [string, React.ReactNode, 'wide'] => [
            visible(path),
            <details key={path}>
              <summary>{rego.split('\n').length.toLocaleString('en')} lines</summary>
              <Code block style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
                {visible(rego)}
              </Code>
            </details>,
            'wide',
          ])}
        />
      )}
    </Panel>
  );
}
