import { Button, Stack, Text } from '@mantine/core';
import { IconDownload } from '@tabler/icons-react';

import { document as yaml } from '../lib/yaml';
import { Command } from '../parts/action';
import { Empty, Panel } from '../parts/page';

interface Reached {
  id: string;
  handle?: string | null;
  kasUrl?: string | null;
  kasCaCertificate?: string | null;
}

/** A kubeconfig whose user is a program that asks for a token each time: it holds no secret. */
export function kubeconfig({ id, handle, kasUrl, kasCaCertificate }: Reached, console: string): string {
  const name = `plural-${handle ?? id}`;
  return yaml({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': name,
    clusters: [
      {
        name,
        cluster: {
          server: kasUrl ?? '',
          ...(kasCaCertificate != null && { 'certificate-authority-data': window.btoa(kasCaCertificate) }),
        },
      },
    ],
    contexts: [{ name, context: { cluster: name, user: name } }],
    users: [
      {
        name,
        user: {
          exec: {
            apiVersion: 'client.authentication.k8s.io/v1',
            command: 'plural',
            args: ['cd', 'clusters', 'credential', '--cluster', id, '--url', console],
            interactiveMode: 'Never',
            provideClusterInfo: false,
            installHint: `${name} asks the program plural for a token: install it and sign in with plural login`,
          },
        },
      },
    ],
  });
}

/** Has the browser save a text. */
function save(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: 'application/yaml' }));
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}

/** How kubectl reaches the cluster through the console. */
export function Kubectl({ cluster }: { cluster: Reached }) {
  const handle = cluster.handle ?? cluster.id;
  if (cluster.kasUrl == null)
    return (
      <Panel title="kubectl through the console">
        <Empty title="kubectl cannot come through this console">
          It has no address with TLS: start it with <code>--tls-listen</code>, or put a public URL before it.
        </Empty>
      </Panel>
    );
  return (
    <Panel title="kubectl through the console">
      <Stack gap="md" p="md">
        <Text size="sm">
          Your rights in the cluster are those that its RBAC gives to your address and your groups. The kubeconfig holds no token:
          kubectl asks the command line for one, which ends after an hour.
        </Text>
        <Command caption="Add it to your kubeconfig" line={`plural cd clusters get-credentials ${handle}`} />
        <Button
          variant="default"
          w="fit-content"
          leftSection={<IconDownload size={14} />}
          onClick={() => save(`plural-${handle}.yaml`, kubeconfig(cluster, window.location.origin))}
        >
          Download the kubeconfig
        </Button>
        <Command
          caption="Then"
          line={`plural login --url ${window.location.origin}\nkubectl --kubeconfig plural-${handle}.yaml get namespaces`}
        />
      </Stack>
    </Panel>
  );
}
