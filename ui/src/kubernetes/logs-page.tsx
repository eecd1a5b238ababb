import { getRouteApi } from '@tanstack/react-router';

import { paths } from '../paths';
import { Empty } from '../parts/page';
import { Frame } from './frame';
import { Go } from './go';
import Logs from './logs';

const route = getRouteApi('/clusters/$handle/kubernetes/logs');

/** Logs of all pods of a namespace, or of those with some labels. */
export function LogsPage() {
  const { handle } = route.useParams();
  const { ns, l } = route.useSearch();
  return (
    <Frame
      handle={handle}
      title="Logs"
      within={ns === undefined ? [] : [{ name: ns, to: paths.kubernetes(handle, { kind: 'pods', ns, l }) }]}
    >
      {ns === undefined ? (
        <Empty title="Of which namespace?">
          <Go to={paths.kubernetes(handle, { kind: 'pods' })}>Choose one at the pods</Go>
        </Empty>
      ) : (
        <Logs key={`${handle} ${ns} ${l ?? ''}`} handle={handle} namespace={ns} labels={l ?? ''} container={undefined} />
      )}
    </Frame>
  );
}
