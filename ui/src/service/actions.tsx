import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import {
  IconArrowBackUp,
  IconArrowForwardUp,
  IconFileDiff,
  IconPinnedOff,
  IconPlayerPause,
  IconPlayerPlay,
  IconRefresh,
  IconTrash,
} from '@tabler/icons-react';

import { ask } from '../lib/client';
import { counted, quoted } from '../lib/text';
import { Action } from '../parts/action';
import { isOn, type Values } from '../parts/values';
import { Fault, Waiting } from '../parts/page';
import { Name } from '../parts/text';
import { Delete, Detach, Kick, Pause, PlanService, Promote, Release, Resume, Sync } from './mutations';
import { deletionQuery, type Service } from './queries';

/** What may be done to a service now. */
export function ServiceActions({ service, handle }: { service: Service; handle: string }) {
  const navigate = useNavigate({ from: '/services/$cluster/$name' });
  const { id, name } = service;
  const thing = `service/${handle}/${name}`;
  const which = quoted(`${handle}/${name}`);
  const right = (verb: string) => ({ verb, thing });
  const leaves = service.deletedAt == null ? undefined : 'The service is being deleted.';
  const isManual = service.syncConfig?.policy?.manual === true;
  const isCanary = service.reason?.kind === 'APPROVAL' && service.pendingApproval == null;
  return (
    <>
      {isCanary && (
        <>
          <Action
            noun="service"
            label="Promote"
            icon={IconArrowForwardUp}
            right={right('approve')}
            unless={leaves}
            explains="Tells the canaries that wait to go on to their next step."
            command={`plural cd services canary proceed ${which}`}
            run={() => ask(Promote, { id, promotion: 'PROCEED' })}
            done={`Told the canaries of ${name} to go on`}
          />
          <Action
            noun="service"
            label="Take back"
            icon={IconArrowBackUp}
            right={right('approve')}
            unless={leaves}
            explains="Tells the canaries under way to go back to what ran before."
            command={`plural cd services canary rollback ${which}`}
            run={() => ask(Promote, { id, promotion: 'ROLLBACK' })}
            done={`Told the canaries of ${name} to go back`}
          />
        </>
      )}
      <Action
        noun="service"
        label="Sync"
        icon={IconRefresh}
        right={right('sync')}
        unless={
          leaves ?? (service.paused === true ? 'The service is paused: nothing of it is applied until it is resumed.' : undefined)
        }
        explains={
          isManual
            ? 'Applies the newest revision now, and takes over what somebody changed in the cluster.'
            : 'Fetches the repository now and applies what is new. What follows by itself each minute happens at once.'
        }
        {...(isManual && {
          fields: [
            { name: 'prune', label: 'Delete what left git', kind: 'check' as const },
            { name: 'hooks', label: 'Run hooks again that ran already', kind: 'check' as const },
            { name: 'tests', label: 'Run tests afterwards', kind: 'check' as const },
          ],
        })}
        command={isManual ? `plural cd services sync ${which}` : `plural cd services kick ${which}`}
        run={(values): Promise<unknown> =>
          isManual
            ? ask(Sync, {
                id,
                attributes: { prune: isOn(values, 'prune'), repeatHooks: isOn(values, 'hooks'), runTests: isOn(values, 'tests') },
              })
            : ask(Kick, { id })
        }
        done={`Asked for a sync of ${name}`}
      />
      <Action
        noun="service"
        label="Plan"
        icon={IconFileDiff}
        right={right('plan')}
        unless={leaves}
        explains="The cluster’s agent says what a sync would do, field by field, without doing it. The plan stands under Changes a moment later."
        command={`plural cd services plan ${which}`}
        run={async () => {
          await ask(PlanService, { id });
          await navigate({ search: (old) => ({ ...old, tab: 'changes' }), replace: true });
        }}
        done="The plan is asked for: it stands under Changes when the agent has answered"
      />
      {service.paused === true ? (
        <Action
          key="resume"
          noun="service"
          label="Resume"
          icon={IconPlayerPlay}
          right={right('resume')}
          unless={leaves}
          explains="Applies, repairs and deletes again. Commits that came meanwhile are applied at once."
          command={`plural cd services resume ${which}`}
          run={() => ask(Resume, { id })}
          done={`Resumed ${name}`}
        />
      ) : (
        <Action
          key="pause"
          noun="service"
          label="Pause"
          icon={IconPlayerPause}
          right={right('pause')}
          unless={leaves}
          explains="Nothing of it is applied, repaired or deleted until somebody resumes it. What runs goes on running."
          command={`plural cd services pause ${which}`}
          run={() => ask(Pause, { id })}
          done={`Paused ${name}`}
        />
      )}
      {service.pin && (
        <Action
          noun="service"
          label="Release"
          icon={IconPinnedOff}
          right={right('release')}
          unless={leaves}
          explains="Ends the pin of the rollback: the service goes on with the newest commit."
          command={`plural cd services release ${which}`}
          run={() => ask(Release, { id })}
          done={`Released ${name}`}
        />
      )}
      <Action
        noun="service"
        isDangerous
        label="Delete"
        icon={IconTrash}
        right={right('delete')}
        unless={leaves ?? (service.protect === true ? 'It is protected: remove the protection under Settings first.' : undefined)}
        explains={(values) => <Goes id={id} values={values} />}
        fields={[
          {
            name: 'how',
            label: 'What goes',
            kind: 'choice',
            isRequired: true,
            initial: 'delete',
            options: [
              { value: 'delete', label: 'the service and its objects' },
              { value: 'cascade', label: 'also the services that depend on it, and these first' },
              { value: 'detach', label: 'the service only: its objects stay in the cluster' },
            ],
          },
        ]}
        confirm={name}
        command={({ how }) =>
          how === 'detach'
            ? `plural cd services detach ${which}`
            : `plural cd services delete ${which}${how === 'cascade' ? ' --cascade' : ''}`
        }
        run={async ({ how }) => {
          await (how === 'detach' ? ask(Detach, { id }) : ask(Delete, { id, cascade: how === 'cascade' }));
        }}
        done={`${name} is being removed`}
      />
    </>
  );
}

/** What a deletion takes away, before it does. */
function Goes({ id, values }: { id: string; values: Values }) {
  const { how } = values;
  const query = useQuery({ ...deletionQuery(id, how === 'cascade'), enabled: how !== 'detach' });
  if (how === 'detach')
    return 'The console forgets the service. Nothing changes in the cluster, and nobody keeps its objects as git says any more.';
  if (query.isPending) return <Waiting lines={3} />;
  if (query.isError) return <Fault error={query.error} what="what would go" retry={() => void query.refetch()} />;
  const services = (query.data?.services ?? []).flatMap((service) => service ?? []);
  const hidden = query.data?.hidden ?? 0;
  return (
    <div style={{ maxHeight: 240, overflow: 'auto' }} tabIndex={0} role="region" aria-label="What goes">
      <Text size="sm">These go, in this order:</Text>
      {services.map((service) => {
        const components = (service.components ?? []).flatMap((component) => component ?? []);
        return (
          <details key={service.id} open={services.length < 3}>
            <summary>
              <Name of={`${service.cluster?.handle ?? ''}/${service.name}`} />, {counted(components.length, 'object')}
            </summary>
            <ul style={{ margin: 0, paddingLeft: 20 }}>
              {components.slice(0, 200).map((component) => (
                <li key={component.id}>
                  {component.kind}{' '}
                  <Name of={component.namespace == null ? component.name : `${component.namespace}/${component.name}`} />
                </li>
              ))}
              {components.length > 200 && <li>and {counted(components.length - 200, 'more object')}</li>}
            </ul>
          </details>
        );
      })}
      {(query.data?.omitted ?? 0) > 0 && <Text size="sm">and {counted(query.data?.omitted ?? 0, 'more service')}</Text>}
      {hidden > 0 && (
        <Text size="sm" role="alert">
          {counted(hidden, 'service')} that you may not see {hidden === 1 ? 'depends' : 'depend'} on it: it cannot be deleted so.
        </Text>
      )}
    </div>
  );
}
