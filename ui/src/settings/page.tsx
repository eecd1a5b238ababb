import { Select } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { getRouteApi, Link, useNavigate, useParams } from '@tanstack/react-router';
import { Suspense } from 'react';

import { paths, settingGroups, settings, type Setting } from '../paths';
import { Page, Waiting } from '../parts/page';
import { pages, titles } from './nouns';
import classes from './page.module.css';

const route = getRouteApi('/settings/$noun');

/** What the installation consists of besides clusters and services: a list of nouns, and the chosen one beside it. */
export function SettingsPage() {
  const { noun } = route.useParams();
  const { id } = useParams({ strict: false });
  const chosen = settings.find((one) => one === noun) ?? 'repositories';
  const { List, One } = pages[chosen];
  return (
    <div className={classes['frame']}>
      <Nouns chosen={chosen} />
      <div className={classes['main']}>
        <Suspense
          fallback={
            <Page title={titles[chosen]}>
              <Waiting lines={8} />
            </Page>
          }
        >
          {id !== undefined && One ? <One key={id} id={id} /> : <List />}
        </Suspense>
      </div>
    </div>
  );
}

function Nouns({ chosen }: { chosen: Setting }) {
  const navigate = useNavigate();
  const isNarrow = useMediaQuery('(max-width: 1000px)', false, { getInitialValueInEffect: false });
  if (isNarrow) {
    return (
      <Select
        aria-label="Settings"
        m="sm"
        mb={0}
        allowDeselect={false}
        value={chosen}
        data={Object.entries(settingGroups).map(([group, items]) => ({
          group,
          items: items.map((value) => ({ value, label: titles[value] })),
        }))}
        onChange={(next) => next !== null && void navigate({ to: paths.settings(next as Setting) })}
      />
    );
  }
  return (
    <nav aria-label="Settings" className={classes['nav']}>
      {Object.entries(settingGroups).map(([group, items]) => (
        <div key={group}>
          <h2>{group}</h2>
          {items.map((one) => (
            <Link key={one} to={paths.settings(one)} {...(one === chosen && { 'aria-current': 'page' as const })}>
              {titles[one]}
            </Link>
          ))}
        </div>
      ))}
    </nav>
  );
}
