import { queryOptions } from '@tanstack/react-query';

import { graphql } from '../generated';
import type { PrAutomationFormQuery, PreviewPullRequestMutation } from '../generated/graphql';
import { ask } from '../lib/client';

const Form = graphql(/* GraphQL */ `
  query PrAutomationForm($name: String!) {
    prAutomation(name: $name) {
      id
      name
      role
      addon
      documentation
      identifier
      branch
      patch
      mayCreate
      project {
        name
      }
      configuration {
        type
        name
        default
        documentation
        longform
        page
        displayName
        placeholder
        optional
        values
        condition {
          operation
          field
          value
        }
        validation {
          regex
          json
          uniqBy {
            scope
          }
        }
      }
      confirmation {
        text
        checklist {
          label
        }
      }
      secrets {
        cluster
        namespace
        name
        entries {
          name
          documentation
          autogenerate
        }
      }
    }
  }
`);

export const Preview = graphql(/* GraphQL */ `
  mutation PreviewPullRequest($id: ID!, $identifier: String, $context: Json) {
    previewPullRequest(id: $id, identifier: $identifier, context: $context) {
      repository
      base
      commit
      title
      message
      patch
      skipped
      warnings
      files {
        path
        change
        diff
      }
    }
  }
`);

export const PlanPreview = graphql(/* GraphQL */ `
  mutation PlanPullRequestPreview($id: ID!, $identifier: String, $context: Json) {
    planPullRequestPreview(id: $id, identifier: $identifier, context: $context) {
      id
    }
  }
`);

export const Open = graphql(/* GraphQL */ `
  mutation OpenPullRequest($id: ID!, $identifier: String, $branch: String, $context: Json, $key: String, $secrets: Json) {
    createPullRequest(
      id: $id
      identifier: $identifier
      branch: $branch
      context: $context
      wait: false
      idempotencyKey: $key
      secrets: $secrets
    ) {
      id
    }
  }
`);

export type Asking = NonNullable<PrAutomationFormQuery['prAutomation']>;
export type Previewed = NonNullable<PreviewPullRequestMutation['previewPullRequest']>;

/** An automation as whoever opens a pull request sees it. Read once: a form does not change under the hand. */
export const formQuery = (name: string) =>
  queryOptions({
    queryKey: ['automations', 'form', name],
    queryFn: async ({ signal }) => (await ask(Form, { name }, signal)).prAutomation,
    refetchInterval: false,
    refetchOnWindowFocus: false,
    staleTime: 0,
  });
