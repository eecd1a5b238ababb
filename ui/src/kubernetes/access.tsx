import { Autocomplete, Select, Tabs, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useMemo } from 'react';

import { quoted } from '../lib/text';
import { paths } from '../paths';
import { Command } from '../parts/action';
import { Empty, Facts, Panel, Waiting } from '../parts/page';
import { held } from '../parts/shown';
import { Name } from '../parts/text';
import { Paths, Rules } from './details';
import { kindsQuery, listed } from './discovery';
import { Frame, Trouble, whoQuery } from './frame';
import { Go } from './go';
import { clusterRoleBindingsKind, clusterRolesKind, roleBindingsKind, rolesKind } from './known';
import { Namespaces } from './list';
import listClasses from './list.module.css';
import classes from './object.module.css';
import { someQuery } from './queries';
import { whoCan, type Deed } from './rbac';
import { clusterPath, kubeJson } from './request';

const route = getRouteApi('/clusters/$handle/kubernetes/access');

/** Who may do what in a cluster, as its roles say; and what you may. */
export function AccessPage() {
  const { handle } = route.useParams();
  const { tab = 'mine' } = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <Frame handle={handle} title="Access">
      <Tabs
        value={tab}
        keepMounted={false}
        onChange={(next) =>
          void navigate({ search: (old) => ({ ...old, tab: next === 'who' ? 'who' : undefined }), replace: true })
        }
      >
        <Tabs.List mb="md">
          <Tabs.Tab value="mine">What can I do?</Tabs.Tab>
          <Tabs.Tab value="who">Who can?</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="mine">
          <Mine />
        </Tabs.Panel>
        <Tabs.Panel value="who">
          <Who />
        </Tabs.Panel>
      </Tabs>
    </Frame>
  );
}

interface Review {
  status?: { resourceRules?: unknown[]; nonResourceRules?: unknown[]; incomplete?: boolean; evaluationError?: string };
}

function Mine() {
  const { handle } = route.useParams();
  const { ns = 'default' } = route.useSearch();
  const navigate = route.useNavigate();
  const who = useQuery(whoQuery(handle));
  const rules = useQuery({
    queryKey: ['kubernetes', handle, 'rules', ns],
    queryFn: ({ signal }) =>
      kubeJson<Review>(clusterPath(handle, 'apis/authorization.k8s.io/v1/selfsubjectrulesreviews'), {
        method: 'POST',
        body: { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectRulesReview', spec: { namespace: ns } },
        signal,
      }),
  });
  const status = held(rules)?.status;
  return (
    <div className={classes['stack']}>
      <Panel title="Who you are to this cluster">
        {who.isError ? (
          <Trouble handle={handle} error={who.error} what="who you are" />
        ) : (
          <Facts
            facts={[
              ['User', <Name key="user" of={who.data?.name ?? '…'} />],
              ['Groups', <Name key="groups" of={(who.data?.groups ?? []).join(', ')} />],
            ]}
          />
        )}
      </Panel>
      <div className={listClasses['tools']}>
        <Text size="sm">In the namespace</Text>
        <Namespaces
          handle={handle}
          value={ns}
          onChange={(next) => void navigate({ search: (old) => ({ ...old, ns: next }), replace: true })}
        />
      </div>
      {rules.isPending && <Waiting />}
      {rules.isError && <Trouble handle={handle} error={rules.error} what="what you may do" retry={() => void rules.refetch()} />}
      {status && (
        <>
          {status.incomplete === true && (
            <Text size="sm" role="status">
              The cluster has authorizers that do not say what they allow: you may be able to do more than stands here.{' '}
              <Name of={status.evaluationError ?? ''} />
            </Text>
          )}
          <Rules title={`What you may do in the namespace ${ns}`} rules={status.resourceRules ?? []} />
          <Paths title="Paths of the API that you may ask for" rules={status.nonResourceRules ?? []} />
          <Command line={`kubectl auth can-i --list -n ${quoted(ns)}`} />
        </>
      )}
    </div>
  );
}

/** Roles and bindings of a kind that are read. */
const MOST = 10_000;

const VERBS = [
  'get',
  'list',
  'watch',
  'create',
  'update',
  'patch',
  'delete',
  'deletecollection',
  'impersonate',
  'bind',
  'escalate',
];

function Who() {
  const { handle } = route.useParams();
  const { ns, verb = 'delete', what = 'pods', name = '' } = route.useSearch();
  const navigate = route.useNavigate();
  const set = (change: Record<string, string | undefined>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const kinds = useQuery(kindsQuery(handle)).data;
  const [id = '', below] = what.split('/');
  const kind = kinds?.find((one) => one.id === id);
  const lists = [
    useQuery(someQuery(handle, clusterRolesKind, {}, false, MOST)),
    useQuery(someQuery(handle, clusterRoleBindingsKind, {}, false, MOST)),
    useQuery({ ...someQuery(handle, rolesKind, { namespace: ns }, false, MOST), enabled: ns !== undefined }),
    useQuery({ ...someQuery(handle, roleBindingsKind, { namespace: ns }, false, MOST), enabled: ns !== undefined }),
  ] as const;
  const [clusterRoles, clusterRoleBindings, roles, roleBindings] = lists;
  const failed = lists.find(({ isError }) => isError);
  const isWaiting = lists.some(({ isLoading }) => isLoading);
  const isCut = lists.some(({ data }) => (data?.length ?? 0) >= MOST);
  const deed: Deed | undefined = useMemo(
    () => kind && { verb, group: kind.group, resource: below === undefined ? kind.resource : `${kind.resource}/${below}`, name },
    [verb, kind, below, name],
  );
  const grants = useMemo(
    () =>
      deed === undefined
        ? []
        : whoCan(
            {
              roles: roles.data ?? [],
              clusterRoles: clusterRoles.data ?? [],
              roleBindings: roleBindings.data ?? [],
              clusterRoleBindings: clusterRoleBindings.data ?? [],
            },
            deed,
            ns,
          ),
    [deed, ns, roles.data, clusterRoles.data, roleBindings.data, clusterRoleBindings.data],
  );
  const choices = useMemo(
    () => [...new Set(listed(kinds ?? []).flatMap((one) => [one.id, ...one.subresources.map((sub) => `${one.id}/${sub.name}`)]))],
    [kinds],
  );
  return (
    <div className={classes['stack']}>
      <div className={listClasses['tools']}>
        <Text size="sm">Who can</Text>
        <Select
          aria-label="Verb"
          data={VERBS}
          value={verb}
          w={150}
          allowDeselect={false}
          onChange={(value) => set({ verb: value ?? undefined })}
        />
        <Autocomplete
          size="xs"
          w={260}
          aria-label="Resource"
          data={choices}
          limit={50}
          value={what}
          onChange={(value) => set({ what: value || undefined })}
        />
        <TextInput
          aria-label="Name"
          placeholder="named (any)"
          w={150}
          value={name}
          onChange={({ currentTarget }) => set({ name: currentTarget.value || undefined })}
        />
        <Text size="sm">in</Text>
        <Namespaces handle={handle} value={ns} onChange={(next) => set({ ns: next })} />
      </div>
      {failed ? (
        <Trouble handle={handle} error={failed.error} what="roles and their bindings" />
      ) : (
        <Panel title={ns === undefined ? 'Everywhere in the cluster' : `In ${ns}`}>
          {isWaiting && <Waiting />}
          {isCut && (
            <Text size="sm" p="sm" role="alert">
              Only the first {MOST.toLocaleString('en')} roles and bindings of a kind were looked at: somebody else may be able to
              do it, too.
            </Text>
          )}
          {!isWaiting && kind === undefined && <Empty title="The cluster serves no such resource">Choose one of the list.</Empty>}
          {!isWaiting && kind !== undefined && grants.length === 0 && <Empty title="Nobody, as its roles say" />}
          {grants.length > 0 && (
            <table className={classes['table']}>
              <thead>
                <tr>
                  <th scope="col">Who</th>
                  <th scope="col">Where</th>
                  <th scope="col">By the role</th>
                  <th scope="col">Bound by</th>
                </tr>
              </thead>
              <tbody>
                {grants.map(({ subject, binding, isClusterWide, role }) => (
                  <tr
                    key={`${binding.metadata.uid ?? binding.metadata.name} ${subject.kind} ${subject.namespace ?? ''} ${subject.name}`}
                  >
                    <td>
                      {subject.kind}{' '}
                      <Name of={subject.namespace === undefined ? subject.name : `${subject.namespace}/${subject.name}`} />
                    </td>
                    <td>{isClusterWide ? 'whole cluster' : <Name of={binding.metadata.namespace ?? ''} />}</td>
                    <td>
                      <Go to={roleAddress(handle, role, binding.metadata.namespace)}>
                        <Name of={role.name} />
                      </Go>
                    </td>
                    <td>
                      <Go
                        to={paths.kubernetesObject(handle, {
                          kind: isClusterWide ? clusterRoleBindingsKind.id : roleBindingsKind.id,
                          ns: binding.metadata.namespace,
                          name: binding.metadata.name,
                        })}
                      >
                        <Name of={binding.metadata.name} />
                      </Go>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </Panel>
      )}
      <Text size="sm" c="dimmed">
        From the roles and bindings that the cluster stores. Members of system:masters may do everything and stand in no binding;
        other authorizers, such as those for nodes and webhooks, are not seen here.
      </Text>
    </div>
  );
}

function roleAddress(handle: string, role: { kind: string; name: string }, ns: string | undefined): string {
  return role.kind === 'Role'
    ? paths.kubernetesObject(handle, { kind: rolesKind.id, ns, name: role.name })
    : paths.kubernetesObject(handle, { kind: clusterRolesKind.id, name: role.name });
}
