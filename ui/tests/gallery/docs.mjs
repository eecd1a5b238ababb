// The pictures that the documentation shows: at 1280 px, light, with so many rows that a page has its usual look.
import { pages } from './pages.mjs';

const SHOWN = {
  fleet: 3000,
  clusters: 3000,
  connect: 3,
  services: 3000,
  service: 3000,
  'service-revisions': 3,
  'service-changes': 3,
  'global-service': 3,
  stack: 3,
  run: 3,
  'stack-graph': 3,
  pods: 3000,
  'pod-logs': 3,
  access: 3,
  project: 3,
  audit: 3000,
};

/** Pages as in the gallery, each with how many rows. */
export const shown = Object.entries(SHOWN).map(([name, rows]) => ({ ...pages.find((page) => page.name === name), rows: [rows] }));
/** Bytes of a picture. `cargo xtask tidy` has the same. */
export const MOST = 120 * 1024;
