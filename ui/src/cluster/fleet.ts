import type { ClusterDistro } from '../generated/graphql';

/** `1.33` of `v1.33.4`. */
export function minor(version: string | null | undefined): string | undefined {
  return /^v?(\d+\.\d+)/.exec(version ?? '')?.[1];
}

/** Minor versions that are two or more behind the newest of these. */
export function behind(versions: string[]): { newest: string; old: string[] } | undefined {
  const numbers = (version: string) => version.split('.').map(Number) as [number, number];
  const [newest] = [...versions].sort((a, b) => {
    const [x, y] = numbers(a);
    const [p, q] = numbers(b);
    return p - x || q - y;
  });
  if (newest === undefined) return undefined;
  const [top, high] = numbers(newest);
  return {
    newest,
    old: versions.filter((version) => {
      const [major, small] = numbers(version);
      return major < top || high - small >= 2;
    }),
  };
}

const distributions: Record<ClusterDistro, string> = {
  AKS: 'AKS',
  EKS: 'EKS',
  GENERIC: 'Other',
  GKE: 'GKE',
  K3S: 'k3s',
  OPENSHIFT: 'OpenShift',
  RKE: 'RKE',
};

/** A distribution as its makers write it. */
export const distribution = (distro: ClusterDistro): string => distributions[distro];
