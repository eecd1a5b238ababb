import { graphql } from '../generated';

export const Create = graphql(/* GraphQL */ `
  mutation CreateStack($attributes: StackAttributes!) {
    createStack(attributes: $attributes) {
      id
      name
    }
  }
`);
export const Update = graphql(/* GraphQL */ `
  mutation UpdateStack($id: ID!, $attributes: StackAttributes!) {
    updateStack(id: $id, attributes: $attributes) {
      id
    }
  }
`);
export const Delete = graphql(/* GraphQL */ `
  mutation DeleteStack($id: ID!, $forget: ID, $leaveDependents: Boolean) {
    deleteStack(id: $id, forget: $forget, leaveDependents: $leaveDependents) {
      id
    }
  }
`);
export const Detach = graphql(/* GraphQL */ `
  mutation DetachStack($id: ID!, $forget: ID, $leaveDependents: Boolean) {
    detachStack(id: $id, forget: $forget, leaveDependents: $leaveDependents) {
      id
    }
  }
`);
export const Restore = graphql(/* GraphQL */ `
  mutation RestoreStack($id: ID!) {
    restoreStack(id: $id) {
      id
    }
  }
`);
export const Trigger = graphql(/* GraphQL */ `
  mutation TriggerRun($id: ID!, $dryRun: Boolean, $destroy: Boolean) {
    triggerRun(id: $id, dryRun: $dryRun, destroy: $destroy) {
      id
    }
  }
`);
export const CheckDrift = graphql(/* GraphQL */ `
  mutation CheckDrift($id: ID!) {
    checkStackDrift(id: $id) {
      id
    }
  }
`);
export const Exec = graphql(/* GraphQL */ `
  mutation Exec($stackId: ID!, $commands: [CommandAttributes!]!) {
    createOnDemandRun(stackId: $stackId, commands: $commands) {
      id
    }
  }
`);
export const Approve = graphql(/* GraphQL */ `
  mutation ApproveRun($id: ID!, $digest: String!) {
    approveStackRun(id: $id, digest: $digest) {
      id
    }
  }
`);
export const Reject = graphql(/* GraphQL */ `
  mutation RejectRun($id: ID!, $reason: String!) {
    rejectStackRun(id: $id, reason: $reason) {
      id
    }
  }
`);
export const Cancel = graphql(/* GraphQL */ `
  mutation CancelRun($id: ID!) {
    cancelStackRun(id: $id) {
      id
    }
  }
`);
export const Restart = graphql(/* GraphQL */ `
  mutation RestartRun($id: ID!) {
    restartStackRun(id: $id) {
      id
    }
  }
`);
export const Unlock = graphql(/* GraphQL */ `
  mutation ForceUnlock($stack: ID!, $lock: ID!) {
    forceUnlockStack(stackId: $stack, lock: $lock) {
      id
    }
  }
`);
export const RestoreState = graphql(/* GraphQL */ `
  mutation RestoreState($stack: ID!, $version: ID!) {
    restoreStackState(stackId: $stack, version: $version) {
      id
    }
  }
`);
