import type { Kind } from './request';

/** Kinds that every cluster has, for requests that do not wait for its discovery. */
function known(resource: string, kind: string, isNamespaced: boolean, group = ''): Kind {
  const id = group === '' ? resource : `${resource}.${group}`;
  const verbs = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'];
  return { id, group, version: 'v1', kind, resource, isNamespaced, verbs, shortNames: [], subresources: [] };
}

const RBAC = 'rbac.authorization.k8s.io';

export const podsKind = known('pods', 'Pod', true);
export const eventsKind = known('events', 'Event', true);
export const rolesKind = known('roles', 'Role', true, RBAC);
export const roleBindingsKind = known('rolebindings', 'RoleBinding', true, RBAC);
export const clusterRolesKind = known('clusterroles', 'ClusterRole', false, RBAC);
export const clusterRoleBindingsKind = known('clusterrolebindings', 'ClusterRoleBinding', false, RBAC);
