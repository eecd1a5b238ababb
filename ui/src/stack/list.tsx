import { Button, Group } from '@mantine/core';
import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { IconGitFork, IconPlus } from '@tabler/icons-react';

import { projectsQuery } from '../access/queries';
import { isAnswered, isFilter, PAGE, useNext } from '../lib/list';
import { Copy } from '../parts/action';
import { Choices, Choose, Search } from '../parts/filter';
import { Empty, Page } from '../parts/page';
import { Shown } from '../parts/shown';
import { Table } from '../parts/table';
import { paths } from '../paths';
import { commands } from './commands';
import { stacksQuery, stackTagsQuery } from './queries';
import { stackColumns } from './table';

const route = getRouteApi('/stacks');

/** All stacks that one may see. */
export function StacksPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const list = useInfiniteQuery({ ...stacksQuery(search, PAGE), placeholderData: keepPreviousData });
  const projects = useInfiniteQuery(projectsQuery);
  const tags = useQuery({ ...stackTagsQuery(search), placeholderData: keepPreviousData, enabled: isAnswered(list) });
  const set = (change: Partial<typeof search>) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const next = useNext(list);
  return (
    <Page
      title="Stacks"
      isFull
      actions={
        <>
          <Button variant="default" leftSection={<IconGitFork size={14} />} component={Link} to={paths.stackGraph()}>
            Dependencies
          </Button>
          <Button variant="default" leftSection={<IconPlus size={14} />} component={Link} to={paths.newStack()}>
            Create a stack
          </Button>
        </>
      }
    >
      <Group gap="sm">
        <Search label="Search by name" value={search.q ?? ''} onChange={(q) => set({ q: q === '' ? undefined : q })} />
        <Choices>
          <Choose
            label="Project"
            value={search.project}
            onChange={(project) => set({ project })}
            choices={(projects.data ?? []).map(({ id, name }) => ({ value: id, label: name }))}
          />
          <Choose
            label="Tag"
            value={search.tag}
            onChange={(tag) => set({ tag })}
            choices={(tags.data ?? []).map(({ tag: { name, value }, count }) => ({
              value: `${name}=${value}`,
              label: `${name}=${value}`,
              count,
            }))}
          />
        </Choices>
      </Group>
      <Shown query={list} what="stacks">
        <Table
          label="Stacks"
          rows={list.data ?? []}
          columns={stackColumns}
          id={(stack) => stack.id}
          isWaiting={list.isPending}
          next={next}
          empty={
            isFilter(search) ? (
              <Empty title="No stack matches">Change the search, or show all projects and tags.</Empty>
            ) : (
              <Empty title="No stacks yet">
                A stack is infrastructure that Terraform, OpenTofu, Ansible or commands of yours keep: its plan is read and
                approved here before it is applied. Make the first with <code>{commands.create}</code>
                <Copy text={commands.create} label="Copy the command" />
              </Empty>
            )
          }
        />
      </Shown>
    </Page>
  );
}
