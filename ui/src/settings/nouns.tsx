import { lazy, type ComponentType } from 'react';

import type { Setting } from '../paths';

/** The page of all, and of one where that has its own. Each is read when it is opened first. */
interface Pages {
  List: ComponentType;
  One?: ComponentType<{ id: string }>;
}

export const titles: Record<Setting, string> = {
  'global-services': 'Global services',
  'managed-namespaces': 'Managed namespaces',
  contexts: 'Contexts',
  'sync-windows': 'Sync windows',
  repositories: 'Git repositories',
  'helm-repositories': 'Chart repositories',
  'stack-definitions': 'Stack definitions',
  'scm-connections': 'Connections to git hosts',
  'scm-webhooks': 'Webhooks of git hosts',
  'pr-automations': 'Automations of pull requests',
  'pull-requests': 'Pull requests',
  projects: 'Projects',
  users: 'Users',
  groups: 'Groups',
  roles: 'Roles',
  'service-accounts': 'Service accounts',
  personas: 'Personas',
  providers: 'Identity providers',
  invitations: 'Invitations',
  'registration-tokens': 'Registration tokens',
  jobs: 'Background jobs',
  'data-keys': 'Data keys',
  recordings: 'Recordings',
  tokens: 'Tokens and sessions',
  security: 'Signing in',
  'saved-views': 'Saved views',
};

export const pages: Record<Setting, Pages> = {
  'global-services': {
    List: lazy(async () => ({ default: (await import('../globalservice/page')).List })),
    One: lazy(async () => ({ default: (await import('../globalservice/page')).One })),
  },
  'managed-namespaces': {
    List: lazy(async () => ({ default: (await import('../managednamespace/page')).List })),
    One: lazy(async () => ({ default: (await import('../managednamespace/page')).One })),
  },
  contexts: {
    List: lazy(async () => ({ default: (await import('../context/page')).List })),
    One: lazy(async () => ({ default: (await import('../context/page')).One })),
  },
  'sync-windows': {
    List: lazy(async () => ({ default: (await import('../syncwindow/page')).List })),
  },
  repositories: {
    List: lazy(async () => ({ default: (await import('../repository/page')).List })),
    One: lazy(async () => ({ default: (await import('../repository/page')).One })),
  },
  'helm-repositories': {
    List: lazy(async () => ({ default: (await import('../helmrepository/page')).List })),
  },
  'stack-definitions': {
    List: lazy(async () => ({ default: (await import('../stackdefinition/page')).List })),
    One: lazy(async () => ({ default: (await import('../stackdefinition/page')).One })),
  },
  'scm-connections': {
    List: lazy(async () => ({ default: (await import('../scmconnection/page')).List })),
    One: lazy(async () => ({ default: (await import('../scmconnection/page')).One })),
  },
  'scm-webhooks': {
    List: lazy(async () => ({ default: (await import('../scmwebhook/page')).List })),
  },
  'pr-automations': {
    List: lazy(async () => ({ default: (await import('../prautomation/page')).List })),
    One: lazy(async () => ({ default: (await import('../prautomation/page')).One })),
  },
  'pull-requests': {
    List: lazy(async () => ({ default: (await import('../pullrequest/page')).List })),
    One: lazy(async () => ({ default: (await import('../pullrequest/one')).One })),
  },
  projects: {
    List: lazy(async () => ({ default: (await import('../project/page')).List })),
    One: lazy(async () => ({ default: (await import('../project/page')).One })),
  },
  users: {
    List: lazy(async () => ({ default: (await import('../user/page')).List })),
    One: lazy(async () => ({ default: (await import('../user/page')).One })),
  },
  groups: {
    List: lazy(async () => ({ default: (await import('../group/page')).List })),
    One: lazy(async () => ({ default: (await import('../group/page')).One })),
  },
  roles: {
    List: lazy(async () => ({ default: (await import('../role/page')).List })),
    One: lazy(async () => ({ default: (await import('../role/page')).One })),
  },
  'service-accounts': {
    List: lazy(async () => ({ default: (await import('../serviceaccount/page')).List })),
    One: lazy(async () => ({ default: (await import('../serviceaccount/page')).One })),
  },
  personas: {
    List: lazy(async () => ({ default: (await import('../persona/page')).List })),
    One: lazy(async () => ({ default: (await import('../persona/page')).One })),
  },
  providers: {
    List: lazy(async () => ({ default: (await import('../provider/page')).List })),
    One: lazy(async () => ({ default: (await import('../provider/page')).One })),
  },
  invitations: {
    List: lazy(async () => ({ default: (await import('../invitation/page')).List })),
  },
  'registration-tokens': {
    List: lazy(async () => ({ default: (await import('../registrationtoken/page')).List })),
  },
  jobs: {
    List: lazy(async () => ({ default: (await import('../job/page')).List })),
  },
  'data-keys': {
    List: lazy(async () => ({ default: (await import('../datakey/page')).List })),
  },
  recordings: {
    List: lazy(async () => ({ default: (await import('../recording/page')).List })),
    One: lazy(async () => ({ default: (await import('../recording/page')).One })),
  },
  tokens: {
    List: lazy(async () => ({ default: (await import('../token/page')).List })),
  },
  security: {
    List: lazy(async () => ({ default: (await import('../security/page')).List })),
  },
  'saved-views': {
    List: lazy(async () => ({ default: (await import('../savedview/page')).List })),
  },
};
