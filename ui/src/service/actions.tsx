import { IconPlayerPause, IconPlayerPlay, IconPinnedOff, IconRefresh } from '@tabler/icons-react';

import { ask } from '../lib/client';
import { quoted } from '../lib/text';
import { Action } from '../parts/action';
import { Kick, Pause, Release, Resume, Sync, type Service } from './queries';

/** What may be done to a service now. */
export function ServiceActions({ service, handle }: { service: Service; handle: string }) {
  const { id, name } = service;
  const thing = `service/${handle}/${name}`;
  const which = quoted(`${handle}/${name}`);
  const right = (verb: string) => ({ verb, thing });
  const leaves = service.deletedAt == null ? undefined : 'The service is being deleted.';
  const isManual = service.syncConfig?.policy?.manual === true;
  return (
    <>
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
        command={isManual ? `plural cd services sync ${which}` : `plural cd services kick ${which}`}
        run={() => (isManual ? ask(Sync, { id }) : ask(Kick, { id }))}
        done={`Asked for a sync of ${name}`}
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
    </>
  );
}
