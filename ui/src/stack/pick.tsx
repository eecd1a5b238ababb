import { Select, Text, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState, type ComponentType } from 'react';

import { graphql } from '../generated';
import type { ConfigurationType, ValidationUniqScope } from '../generated/graphql';
import { ask } from '../lib/client';
import { visible } from '../lib/text';
import { Name } from '../parts/text';
import type { InputProps } from '../parts/values';

const Clusters = graphql(/* GraphQL */ `
  query ClustersToPick($q: String) {
    clusters(first: 50, q: $q) {
      edges {
        node {
          handle
          name
        }
      }
    }
  }
`);
const Projects = graphql(/* GraphQL */ `
  query ProjectsToPick($q: String) {
    projects(first: 50, q: $q) {
      edges {
        node {
          name
        }
      }
    }
  }
`);
const Groups = graphql(/* GraphQL */ `
  query GroupsToPick($q: String) {
    groups(first: 50, q: $q) {
      edges {
        node {
          name
        }
      }
    }
  }
`);
const Users = graphql(/* GraphQL */ `
  query UsersToPick($q: String) {
    users(first: 50, q: $q) {
      edges {
        node {
          name
          email
        }
      }
    }
  }
`);

interface Choice {
  value: string;
  /** By which people know it, too. */
  called?: string;
}
type Find = (q: string | null, signal: AbortSignal) => Promise<Choice[]>;
interface Page<Node> {
  edges?: readonly ({ node?: Node | null } | null)[] | null;
}

const choicesOf = <Node,>(page: Page<Node> | null | undefined, choice: (node: Node) => Choice[]) =>
  (page?.edges ?? []).flatMap((edge) => (edge?.node == null ? [] : choice(edge.node)));
const named = ({ name }: { name: string }): Choice[] => [{ value: name }];

const finds: Partial<Record<ConfigurationType, Find>> = {
  CLUSTER: async (q, signal) =>
    choicesOf((await ask(Clusters, { q }, signal)).clusters, ({ handle, name }) =>
      handle == null ? [] : [{ value: handle, ...(name !== handle && { called: name }) }],
    ),
  PROJECT: async (q, signal) => choicesOf((await ask(Projects, { q }, signal)).projects, named),
  GROUP: async (q, signal) => choicesOf((await ask(Groups, { q }, signal)).groups, named),
  USER: async (q, signal) =>
    choicesOf((await ask(Users, { q }, signal)).users, ({ name, email }) => [{ value: email, called: name }]),
};

/** One of those that there are, found by what is typed. Where they cannot be read, it is written. */
function picker(type: ConfigurationType, find: Find): ComponentType<InputProps> {
  return function Pick({ value, onChange, ...common }: InputProps) {
    const [typed, setTyped] = useState('');
    const [q] = useDebouncedValue(typed.trim(), 80);
    const query = useQuery({
      queryKey: ['pick', type, q],
      queryFn: ({ signal }) => find(q === '' ? null : q, signal),
      placeholderData: keepPreviousData,
      refetchInterval: false,
    });
    if (query.isError)
      return (
        <TextInput
          {...common}
          value={value}
          autoComplete="off"
          spellCheck={false}
          onChange={({ currentTarget }) => onChange(currentTarget.value)}
        />
      );
    const found = query.data ?? [];
    const values = [...new Set([...(value === '' ? [] : [value]), ...found.map((choice) => choice.value)])];
    return (
      <Select
        {...common}
        // A label stays what it is whatever was found: another one would take the place of what is typed.
        data={values.map((one) => ({ value: one, label: visible(one) }))}
        value={value === '' ? null : value}
        clearable
        searchable
        // The server found them.
        filter={({ options }) => options}
        nothingFoundMessage={query.isFetching ? 'Looking…' : 'There is none, as far as you may see'}
        renderOption={({ option }) => {
          const called = found.find((choice) => choice.value === option.value)?.called;
          return (
            <span>
              <Name of={option.value} />
              {called !== undefined && (
                <Text span size="xs" c="dimmed">
                  {' '}
                  <Name of={called} />
                </Text>
              )}
            </span>
          );
        }}
        // What is chosen stands in the box, too.
        onSearchChange={(text) => setTyped(values.some((one) => visible(one) === text) ? '' : text)}
        onChange={(next) => onChange(next ?? '')}
      />
    );
  };
}

const finders: Record<ValidationUniqScope, { find: Find | undefined; what: string }> = {
  CLUSTER: { find: finds.CLUSTER, what: 'cluster' },
  PROJECT: { find: finds.PROJECT, what: 'project' },
};

/** A name that nothing has, as far as one may see: the console knows of what one may not. */
function newName(scope: ValidationUniqScope): ComponentType<InputProps> {
  const { find, what } = finders[scope];
  return function NewName({ value, onChange, error, ...common }: InputProps) {
    const [q] = useDebouncedValue(value, 200);
    const query = useQuery({
      queryKey: ['pick', scope, q],
      queryFn: ({ signal }) => find?.(q, signal) ?? [],
      enabled: q !== '' && q.length <= 200,
      refetchInterval: false,
    });
    const isTaken = q === value && (query.data ?? []).some((choice) => choice.value === value);
    return (
      <TextInput
        {...common}
        value={value}
        error={error ?? (isTaken ? `Must be new: a ${what} has this name.` : undefined)}
        autoComplete="off"
        spellCheck={false}
        onChange={({ currentTarget }) => onChange(currentTarget.value)}
      />
    );
  };
}

/** Inputs of questions whose answer is a new name. */
export const newNames: Record<ValidationUniqScope, ComponentType<InputProps>> = {
  CLUSTER: newName('CLUSTER'),
  PROJECT: newName('PROJECT'),
};

/** Inputs of questions whose answer is the name of something. */
export const pickers: Partial<Record<ConfigurationType, ComponentType<InputProps>>> = Object.fromEntries(
  Object.entries(finds).map(([type, find]) => [type, picker(type as ConfigurationType, find)]),
);
