import { listAt, textAt, type KubeObject } from './objects';

/** What somebody would do. */
export interface Deed {
  verb: string;
  group: string;
  /** `pods`, `pods/exec`. */
  resource: string;
  name: string;
}

/** Who may, and by what. */
export interface Grant {
  subject: { kind: string; name: string; namespace: string | undefined };
  binding: KubeObject;
  isClusterWide: boolean;
  role: { kind: string; name: string };
}

const has = (list: unknown[], wanted: string) => list.some((one) => one === '*' || one === wanted);

/** Whether a rule allows it, as Kubernetes reads rules. */
export function allows(rule: unknown, { verb, group, resource, name }: Deed): boolean {
  if (!has(listAt(rule, 'verbs'), verb) || !has(listAt(rule, 'apiGroups'), group)) return false;
  const names = listAt(rule, 'resourceNames');
  if (names.length > 0 && !names.includes(name)) return false;
  const [, below] = resource.split('/');
  const resources = listAt(rule, 'resources');
  return has(resources, resource) || (below !== undefined && resources.includes(`*/${below}`));
}

interface Policy {
  roles: KubeObject[];
  clusterRoles: KubeObject[];
  roleBindings: KubeObject[];
  clusterRoleBindings: KubeObject[];
}

/** Who may do it in a namespace, or, without one, in all of the cluster. */
export function whoCan(policy: Policy, deed: Deed, namespace: string | undefined): Grant[] {
  const { roles, clusterRoles, roleBindings, clusterRoleBindings } = policy;
  const grants = (binding: KubeObject, isClusterWide: boolean): Grant[] => {
    const role = { kind: textAt(binding, 'roleRef', 'kind') ?? '', name: textAt(binding, 'roleRef', 'name') ?? '' };
    const found =
      role.kind === 'Role'
        ? roles.find(({ metadata }) => metadata.name === role.name && metadata.namespace === binding.metadata.namespace)
        : clusterRoles.find(({ metadata }) => metadata.name === role.name);
    if (!listAt(found, 'rules').some((rule) => allows(rule, deed))) return [];
    return listAt(binding, 'subjects').map((subject) => ({
      subject: {
        kind: textAt(subject, 'kind') ?? '',
        name: textAt(subject, 'name') ?? '',
        namespace: textAt(subject, 'namespace'),
      },
      binding,
      isClusterWide,
      role,
    }));
  };
  const wide = clusterRoleBindings.flatMap((binding) => grants(binding, true));
  if (namespace === undefined) return wide;
  const within = roleBindings.filter(({ metadata }) => metadata.namespace === namespace);
  return [...wide, ...within.flatMap((binding) => grants(binding, false))];
}
