import { graphql } from '../generated';
import { listQuery } from '../lib/list';

const Users = graphql(/* GraphQL */ `
  query Users($after: String, $q: String) {
    list: users(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          email
          serviceAccount
          suspendedAt
          secondFactor
          insertedAt
          roles {
            admin
          }
        }
      }
    }
  }
`);
const Groups = graphql(/* GraphQL */ `
  query Groups($after: String, $q: String) {
    list: groups(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          description
          global
          insertedAt
        }
      }
    }
  }
`);
const Roles = graphql(/* GraphQL */ `
  query Roles($after: String, $q: String) {
    list: roles(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          description
          actions
          insertedAt
        }
      }
    }
  }
`);
const Projects = graphql(/* GraphQL */ `
  query Projects($after: String, $q: String) {
    list: projects(first: 100, after: $after, q: $q) {
      pageInfo {
        hasNextPage
        endCursor
      }
      edges {
        node {
          id
          name
          description
          default
          insertedAt
        }
      }
    }
  }
`);

/** The first hundred of each, to choose from. */
export const usersQuery = listQuery('users', Users);
export const groupsQuery = listQuery('groups', Groups);
export const rolesQuery = listQuery('roles', Roles);
export const projectsQuery = listQuery('projects', Projects);
export { Groups, Projects, Roles, Users };
