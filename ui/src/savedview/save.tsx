import { IconBookmark } from '@tabler/icons-react';

import { graphql } from '../generated';
import { ask } from '../lib/client';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';

const Create = graphql(/* GraphQL */ `
  mutation CreateView($attributes: SavedViewAttributes!) {
    createSavedView(attributes: $attributes) {
      id
    }
  }
`);

/** Keeps what a page shows under a name: its address, and nothing that it holds. */
export function SaveView({ page, search }: { page: string; search: Record<string, string | undefined> }) {
  const query = new URLSearchParams(
    Object.entries(search).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])),
  );
  return (
    <Action
      noun="saved views"
      label="Save this view"
      icon={IconBookmark}
      explains={
        <>
          Keeps what this page shows under a name: <code>{query.toString() === '' ? 'everything' : query.toString()}</code>. Saved
          views stand under Settings and are found by Ctrl K.
        </>
      }
      fields={[{ name: 'name', label: 'Name', isRequired: true, placeholder: 'Failing in production' }]}
      command={({ name = '' }) =>
        `plural cd saved-views create ${quoted(name)} --page ${page} --query ${quoted(query.toString())}`
      }
      run={({ name = '' }) => ask(Create, { attributes: { name: name.trim(), page, query: query.toString() } })}
      done="Saved the view"
    />
  );
}
