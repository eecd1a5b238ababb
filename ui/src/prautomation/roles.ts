import {
  IconArrowUpCircle,
  IconCoin,
  IconRefresh,
  IconRouteAltLeft,
  IconServer2,
  IconStack2,
  IconWand,
  type Icon,
} from '@tabler/icons-react';

import type { PrRole } from '../generated/graphql';

/** What automations are for: several of these in words, and their sign. */
export const roles: Record<PrRole, string> = {
  CLUSTER: 'Clusters',
  SERVICE: 'Services',
  PIPELINE: 'Pipelines',
  UPDATE: 'Updates',
  UPGRADE: 'Upgrades',
  COST: 'Costs',
};
export const isRole = (word: string | undefined): word is PrRole => word !== undefined && word in roles;

const signs: Record<PrRole, Icon> = {
  CLUSTER: IconServer2,
  SERVICE: IconStack2,
  PIPELINE: IconRouteAltLeft,
  UPDATE: IconRefresh,
  UPGRADE: IconArrowUpCircle,
  COST: IconCoin,
};
/** The sign of an automation: of what it is for. Pictures at other addresses are not read, which would tell those who looks. */
export const signOf = (role: PrRole | null | undefined): { Icon: Icon } => ({ Icon: role == null ? IconWand : signs[role] });

/** The choices of a filter. */
export const roleChoices = [
  { value: undefined, label: 'All' },
  ...(Object.keys(roles) as PrRole[]).map((role) => ({ value: role, label: roles[role] })),
];
