/** Every address of the web console. Links and redirects come from here, so that a page moves in one place. */
export const paths = {
  home: () => '/',
  clusters: () => '/clusters',
  cluster: (handle: string) => `/clusters/${encodeURIComponent(handle)}`,
  services: () => '/services',
  service: (cluster: string, name: string) => `/services/${encodeURIComponent(cluster)}/${encodeURIComponent(name)}`,
  audit: () => '/audit',
  settings: (noun: Setting = 'repositories') => `/settings/${noun}`,
  signIn: (then: string) => `/auth/sign-in?then=${encodeURIComponent(then)}`,
} as const;

/** Nouns below Settings. */
export const settings = ['repositories', 'projects', 'users', 'groups', 'tokens'] as const;
export type Setting = (typeof settings)[number];
