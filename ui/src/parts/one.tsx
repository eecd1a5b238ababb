import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';

import { paths, type Setting } from '../paths';
import { Empty, Fault, Page, Waiting } from './page';
import { held, Stale } from './shown';
import { RouteLink } from './text';

interface OneProps<Thing> {
  noun: Setting;
  /** All of them, as their list is called. */
  many: string;
  /** What the address calls it. */
  name: string;
  query: UseQueryResult<Thing | null | undefined>;
  title: (thing: Thing) => string;
  state?: (thing: Thing) => ReactNode;
  actions?: (thing: Thing) => ReactNode;
  children: (thing: Thing) => ReactNode;
}

/** One thing of a noun, or why it cannot be shown. */
export function One<Thing>({ noun, many, name, query, title, state, actions, children }: OneProps<Thing>) {
  const within = [{ name: many, to: paths.settings(noun) }];
  const thing = held(query);
  if (thing == null) {
    return (
      <Page title={name} within={within}>
        {query.isError && <Fault error={query.error} what={name} retry={() => void query.refetch()} />}
        {query.isPending && <Waiting lines={8} />}
        {query.isSuccess && (
          <Empty title="There is no such thing">
            It is gone, or you may not see it. <RouteLink to={paths.settings(noun)}>{many}</RouteLink>
          </Empty>
        )}
      </Page>
    );
  }
  return (
    <Page title={title(thing)} within={within} state={state?.(thing)} actions={actions?.(thing)}>
      <Stale query={query} what={name} />
      {children(thing)}
    </Page>
  );
}
