import { useInfiniteQuery } from '@tanstack/react-query';
import { IconShieldCheck } from '@tabler/icons-react';

import type { PolicyEngineType, VulnSeverity } from '../generated/graphql';
import { ask } from '../lib/client';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Empty, Facts, Panel } from '../parts/page';
import { Name, RouteLink } from '../parts/text';
import { given, isOn, type Field, type Values } from '../parts/values';
import { paths } from '../paths';
import { repositoriesQuery } from '../repository/queries';
import { commands, stackRight } from './commands';
import { Update } from './mutations';
import type { StackOne } from './queries';

const engines: Record<Exclude<PolicyEngineType, 'NONE'>, string> = {
  REGO: 'the console, by rules in Rego',
  TRIVY: 'Trivy, in the image of the run',
};
const severities: Record<Exclude<VulnSeverity, 'UNKNOWN'>, string> = {
  NONE: 'worse than harmless',
  LOW: 'worse than low',
  MEDIUM: 'worse than medium',
  HIGH: 'worse than high',
  CRITICAL: 'worse than critical: only what has no severity',
};

const engineOf = (values: Values) => (Object.keys(engines) as (keyof typeof engines)[]).find((one) => one === values['engine']);
const severityOf = (values: Values) =>
  (Object.keys(severities) as (keyof typeof severities)[]).find((one) => one === values['severity']);
const isChecked = (values: Values) => engineOf(values) !== undefined;
const hasRepository = (values: Values) => isChecked(values) && given(values, 'repository') !== null;

/** It replaces the policy as a whole, so that all of it is said. */
function attributes(values: Values) {
  const type = engineOf(values);
  const severity = severityOf(values);
  if (type === undefined) return { policyEngine: { type: 'NONE' as const } };
  return {
    policyEngine: {
      type,
      customPolicies: isOn(values, 'own'),
      ...(severity !== undefined && { maxSeverity: severity }),
      ...(hasRepository(values) && {
        repositoryId: given(values, 'repository'),
        git: { ref: (values['ref'] ?? '').trim(), folder: (values['folder'] ?? '').trim() },
      }),
    },
  };
}

function command(name: string, values: Values): string {
  const type = engineOf(values);
  const severity = severityOf(values);
  // No option names a repository of rules.
  if (hasRepository(values)) return commands.settings(name, attributes(values));
  return commands.update(
    name,
    `--policy ${quoted((type ?? 'NONE').toLowerCase())}`,
    ...(type !== undefined && severity !== undefined ? [`--policy-max-severity ${severity}`] : []),
    ...(type !== undefined && isOn(values, 'own') ? ['--policy-own-rules'] : []),
  );
}

/** What checks the plans of a stack, besides the rules of its project. */
export function Policy({ stack }: { stack: StackOne }) {
  const repositories = useInfiniteQuery(repositoriesQuery);
  const { id, name, policyEngine: policy, project } = stack;
  const engine = policy && policy.type !== 'NONE' ? policy.type : undefined;
  const severity = policy?.maxSeverity != null && policy.maxSeverity !== 'UNKNOWN' ? policy.maxSeverity : undefined;
  const all = (repositories.data ?? []).map((one) => ({ value: one.id, label: one.url }));
  const url = all.find(({ value }) => value === policy?.repositoryId)?.label;
  const named = policy?.repositoryId != null && url === undefined;
  const fields: Field[] = [
    {
      name: 'engine',
      label: 'Checks its plans',
      kind: 'choice',
      initial: engine ?? '',
      options: Object.entries(engines).map(([value, label]) => ({ value, label })),
      hint: 'Only the rules of the project when empty',
    },
    {
      name: 'severity',
      label: 'A finding refuses the plan when it is',
      kind: 'choice',
      initial: severity ?? '',
      options: Object.entries(severities).map(([value, label]) => ({ value, label })),
      hint: 'All that is denied refuses when empty',
      when: isChecked,
    },
    {
      name: 'own',
      label: 'Its own repository has rules in .plural/policies',
      kind: 'check',
      initial: policy?.customPolicies === true ? 'yes' : '',
      when: isChecked,
    },
    {
      name: 'repository',
      label: 'Repository with more rules',
      kind: 'choice',
      initial: policy?.repositoryId ?? '',
      options: named ? [...all, { value: policy.repositoryId ?? '', label: 'one that you may not see' }] : all,
      when: isChecked,
    },
    {
      name: 'ref',
      label: 'Branch, tag, commit, or range of tags',
      isRequired: true,
      initial: policy?.git?.ref ?? 'main',
      when: hasRepository,
    },
    {
      name: 'folder',
      label: 'Folder with the rules',
      initial: policy?.git?.folder ?? '',
      hint: 'The root when empty',
      when: hasRepository,
    },
  ];
  return (
    <Panel
      title="Policy"
      aside={
        <Action
          key={JSON.stringify(policy ?? null)}
          noun="stack"
          label="Change"
          icon={IconShieldCheck}
          isReading={repositories.isPending}
          right={stackRight(name, 'update')}
          unless={stack.deletedAt == null ? undefined : 'The stack is being destroyed and deleted.'}
          explains="Plans that are made from now on are checked by it. What cannot be checked is refused. The rules of the project hold all the same."
          fields={fields}
          command={(values) => command(name, values)}
          run={(values) => ask(Update, { id, attributes: attributes(values) })}
          done="Changed the policy"
        />
      }
    >
      {engine === undefined ? (
        <Empty title="No policy of its own">
          Its plans are checked by the rules of its project, where{' '}
          {project ? (
            <RouteLink to={paths.setting('projects', project.name)}>
              <Name of={project.name} />
            </RouteLink>
          ) : (
            'that'
          )}{' '}
          has some.
        </Empty>
      ) : (
        <Facts
          facts={[
            ['Checked by', engines[engine]],
            ['Refuses', severity === undefined ? 'all that is denied' : `what is denied and ${severities[severity]}`],
            ['Own rules', policy?.customPolicies === true && 'in .plural/policies of its repository'],
            ['More rules', policy?.repositoryId != null && <Name of={url ?? 'of a repository that you may not see'} />],
            [
              'Of it',
              policy?.git && <Name of={`${policy.git.folder === '' ? 'the root' : policy.git.folder} at ${policy.git.ref}`} />,
            ],
          ]}
        />
      )}
    </Panel>
  );
}
