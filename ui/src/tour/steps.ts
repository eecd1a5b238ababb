import { paths } from '../paths';
import type { Side } from './place';

export interface Step {
  title: string;
  text: string;
  /** What the page has of it: `data-tour` of an element. */
  names: string;
  /** The page that has it. */
  to: string;
  search?: Record<string, string>;
  side?: Side;
}

/** The service that the tour shows. */
export interface Shown {
  cluster: string;
  name: string;
  fails: boolean;
}

/** What somebody who is new needs, in the order in which they need it. Without a service it says how to come to one. */
export function stepsWith(service: Shown | undefined): Step[] {
  const home = paths.home();
  return [
    {
      title: 'Your fleet',
      text: 'Each service is in one of five states. Each state has an icon, a word and a colour of its own. Choose one to see its services.',
      names: 'counts',
      to: home,
    },
    {
      title: 'What fails, and why',
      text: 'Services that fail come first, each with its reason in words. Where nothing fails, it says so.',
      names: 'failing',
      to: home,
    },
    {
      title: 'Clusters',
      text: 'Each cluster, by its state or by what you choose. Its page has its agent, its services and its Kubernetes objects.',
      names: 'clusters',
      to: home,
    },
    ...(service ? ofService(service) : ofNone()),
    {
      title: 'Go anywhere',
      text: 'Finds a cluster, a service or a page by its name; Ctrl K, or ⌘ K, opens it. In a table, the key / searches, and j and k go from row to row.',
      names: 'find',
      to: service ? paths.service(service.cluster, service.name) : paths.services(),
    },
    {
      title: 'Help',
      text: 'The keys, where the documentation is, and this tour again.',
      names: 'help',
      to: service ? paths.service(service.cluster, service.name) : paths.services(),
    },
  ];
}

function ofService({ cluster, name, fails }: Shown): Step[] {
  const to = paths.service(cluster, name);
  return [
    {
      title: 'One failure',
      text: fails
        ? 'The page of a service begins with the reason: which object or file, which line, and what it waits for.'
        : 'This service is in this state. Where one fails, its page begins with the reason: which object or file, which line, and what it waits for.',
      names: fails ? 'why' : 'state',
      to,
    },
    {
      title: 'What changed',
      text: 'Revisions compares any two of them and goes back to one. Changes shows what a sync would do, and what somebody else changed in the cluster.',
      names: 'tabs',
      to,
      search: { tab: 'revisions' },
      side: 'above',
    },
    {
      title: '“Why can’t I?”',
      text: 'An action says what it does, and the same by command line, before it does it. One that you may not do stays here, in grey: press it to read why, and who can give you the right.',
      names: 'actions',
      to,
    },
  ];
}

function ofNone(): Step[] {
  return [
    {
      title: 'Connect a cluster',
      text: 'One command, run where kubectl points at the cluster, brings the agent to it. The page waits and shows it arrive.',
      names: 'actions',
      to: paths.clusters(),
    },
    {
      title: 'Deploy a service',
      text: 'A service is a folder of a git repository, or a chart, on a cluster. An action that you may not do is grey: press it to read why, and who can give you the right.',
      names: 'actions',
      to: paths.services(),
    },
  ];
}
