import { graphql } from '../generated';

export const Kick = graphql(/* GraphQL */ `
  mutation Kick($id: ID!) {
    kickService(serviceId: $id) {
      id
    }
  }
`);
export const Sync = graphql(/* GraphQL */ `
  mutation Sync($id: ID!, $attributes: SyncServiceAttributes) {
    syncService(id: $id, attributes: $attributes) {
      requestId
    }
  }
`);
export const Pause = graphql(/* GraphQL */ `
  mutation Pause($id: ID!) {
    pauseService(id: $id) {
      id
    }
  }
`);
export const Resume = graphql(/* GraphQL */ `
  mutation Resume($id: ID!) {
    resumeService(id: $id) {
      id
    }
  }
`);
export const Release = graphql(/* GraphQL */ `
  mutation Release($id: ID!) {
    releaseService(id: $id) {
      id
    }
  }
`);
export const Rollback = graphql(/* GraphQL */ `
  mutation Rollback($id: ID!, $revisionId: ID!, $until: PinUntil) {
    rollbackService(id: $id, revisionId: $revisionId, until: $until) {
      id
    }
  }
`);
export const PlanService = graphql(/* GraphQL */ `
  mutation PlanService($id: ID!) {
    planService(id: $id) {
      requestId
    }
  }
`);
export const ApprovePrune = graphql(/* GraphQL */ `
  mutation ApprovePrune($id: ID!, $digest: String!) {
    approveServicePrune(id: $id, digest: $digest) {
      id
    }
  }
`);
export const Promote = graphql(/* GraphQL */ `
  mutation Promote($id: ID!, $promotion: ServicePromotion!) {
    promoteService(id: $id, promotion: $promotion) {
      requestId
    }
  }
`);
export const Update = graphql(/* GraphQL */ `
  mutation UpdateService($id: ID!, $attributes: ServiceUpdateAttributes!) {
    updateServiceDeployment(id: $id, attributes: $attributes) {
      id
    }
  }
`);
export const IgnoreDrift = graphql(/* GraphQL */ `
  mutation IgnoreDrift($id: ID!, $attributes: DiffNormalizerAttributes!) {
    ignoreServiceDrift(id: $id, attributes: $attributes) {
      id
    }
  }
`);
export const Clone = graphql(/* GraphQL */ `
  mutation CloneService($id: ID!, $clusterId: ID!, $attributes: ServiceCloneAttributes!) {
    cloneService(serviceId: $id, clusterId: $clusterId, attributes: $attributes) {
      id
      name
    }
  }
`);
export const RotateSeed = graphql(/* GraphQL */ `
  mutation RotateSeed($id: ID!) {
    rotateServiceSeed(id: $id) {
      id
    }
  }
`);
export const Delete = graphql(/* GraphQL */ `
  mutation DeleteService($id: ID!, $cascade: Boolean) {
    deleteServiceDeployment(id: $id, cascade: $cascade) {
      id
    }
  }
`);
export const Detach = graphql(/* GraphQL */ `
  mutation DetachService($id: ID!) {
    detachServiceDeployment(id: $id) {
      id
    }
  }
`);
export const Create = graphql(/* GraphQL */ `
  mutation CreateService($cluster: String!, $attributes: ServiceDeploymentAttributes!) {
    createServiceDeployment(cluster: $cluster, attributes: $attributes) {
      id
      name
    }
  }
`);
