import { Alert, Button, Checkbox, Group, List, Stack, Text } from '@mantine/core';
import { IconAlertTriangle, IconDownload, IconRefresh } from '@tabler/icons-react';

import { listed } from '../lib/list';
import { counted, short, visible } from '../lib/text';
import { noticeOf } from '../parts/notice';
import { Copy } from '../parts/action';
import { Empty, Facts } from '../parts/page';
import { Patch } from '../parts/patch';
import { Name } from '../parts/text';
import type { Values } from '../parts/values';
import type { Question } from '../stack/custom-queries';
import { answersOf } from '../stack/questions';
import type { Asking, Previewed as Preview } from './form-queries';

/** What is answered; of a secret that it is. */
export function Answers({ questions, values }: { questions: Question[]; values: Values }) {
  const answers = Object.entries(answersOf(questions, values));
  if (answers.length === 0) return null;
  const of = (name: string) => questions.find((question) => question.name === name);
  return (
    <Facts
      facts={answers.map(([name, value]) => [
        visible(of(name)?.displayName ?? name),
        of(name)?.type === 'PASSWORD' ? (
          'a secret'
        ) : (
          <Name key={name} of={value.length > 400 ? `${value.slice(0, 400)}…` : value} />
        ),
      ])}
    />
  );
}

/** What a pull request would be. */
export function Previewed(props: {
  automation: Asking;
  /** Values of its Secret that are given. */
  given: Record<string, string> | null;
  preview: Preview;
  again: () => void;
}) {
  const { automation, given, preview, again } = props;
  const { repository, base, commit, title, message, patch } = preview;
  const files = listed(preview.files);
  const warnings = listed(preview.warnings);
  const skipped = listed(preview.skipped);
  const isPatch = automation.patch === true;
  const download = () => {
    const address = URL.createObjectURL(new Blob([patch ?? ''], { type: 'text/plain' }));
    const link = document.createElement('a');
    link.href = address;
    link.download = `${automation.name.replace(/[^\w.-]+/g, '-')}.patch`;
    link.click();
    window.setTimeout(() => URL.revokeObjectURL(address), 1000);
  };
  return (
    <Stack gap="md">
      <Facts
        facts={[
          ['Repository', <Name key="r" of={repository ?? ''} />],
          ['Goes to', <Name key="b" of={`${base ?? ''} at ${short(commit ?? '')}`} />],
          ['Title', <Name key="t" of={title ?? ''} />],
          [
            'Says',
            message != null && message !== title && (
              <span key="m" style={{ whiteSpace: 'pre-line' }}>
                <Name of={message} />
              </span>
            ),
          ],
        ]}
      />
      {warnings.length > 0 && (
        <Alert
          variant="outline"
          color="yellow"
          styles={noticeOf('warn')}
          icon={<IconAlertTriangle size={16} />}
          title="Look at this"
        >
          <List size="sm">
            {warnings.map((warning) => (
              <List.Item key={warning}>
                <Name of={warning} />
              </List.Item>
            ))}
          </List>
        </Alert>
      )}
      {files.length === 0 ? (
        <Empty title="Nothing would change">
          The repository is already as these answers would have it, so there is nothing to open. Go back for other answers.
        </Empty>
      ) : (
        <>
          <Group gap="sm" justify="space-between">
            <Text size="sm" fw={600} role="status">
              {counted(files.length, 'file')} would change
            </Text>
            <Group gap="xs">
              <Copy text={patch ?? ''} label="Copy the patch" />
              {isPatch && (
                <Button variant="default" size="compact-xs" leftSection={<IconDownload size={12} />} onClick={download}>
                  Download the patch
                </Button>
              )}
              <Button variant="default" size="compact-xs" leftSection={<IconRefresh size={12} />} onClick={again}>
                Look again
              </Button>
            </Group>
          </Group>
          <Patch
            files={files.map(({ path, change, diff }) => ({ path: path ?? '', change: change ?? 'CHANGED', diff: diff ?? '' }))}
          />
        </>
      )}
      {skipped.length > 0 && (
        <Text size="sm" c="dimmed">
          Not made, as their condition does not hold: <Name of={skipped.join(', ')} />
        </Text>
      )}
      {isPatch && files.length > 0 && (
        <Text size="sm">This automation makes a patch and no pull request: apply it with git apply.</Text>
      )}
      {!isPatch && <Secrets automation={automation} given={given} />}
    </Stack>
  );
}

/** The Secret that comes with it: of each value whether it is given, and never what it is. */
function Secrets({ automation: { secrets }, given }: { automation: Asking; given: Record<string, string> | null }) {
  if (secrets == null) return null;
  const { cluster, namespace, name } = secrets;
  return (
    <div>
      <Text size="sm">
        It brings the Secret <Name of={`${namespace ?? 'default'}/${name ?? ''}`} />
        {cluster != null && (
          <>
            {' '}
            on cluster <Name of={cluster} />
          </>
        )}
        . It is written there once the pull request is merged; until then the console keeps its values sealed.
      </Text>
      <List size="sm">
        {listed(secrets.entries).map((entry, at) => (
          <List.Item key={at}>
            <Name of={`${entry.name ?? ''}: ${given?.[entry.name ?? ''] === undefined ? 'generated' : 'a secret'}`} />
          </List.Item>
        ))}
      </List>
    </div>
  );
}

/** What whoever opens a pull request confirms: a text, and boxes that all have to be ticked. */
export function Confirm(props: { automation: Asking; ticked: number[]; onChange: (ticked: number[]) => void; isTried: boolean }) {
  const { automation, ticked, onChange, isTried } = props;
  if (automation.confirmation == null) return null;
  const { text, checklist } = automation.confirmation;
  return (
    <Stack gap="sm" role="group" aria-label="To confirm">
      {text != null && text !== '' && (
        <Text size="sm" style={{ whiteSpace: 'pre-line' }}>
          <Name of={text} />
        </Text>
      )}
      {listed(checklist).map(({ label }, at) => (
        <Checkbox
          key={at}
          label={<Name of={label} />}
          checked={ticked.includes(at)}
          error={isTried && !ticked.includes(at)}
          onChange={({ currentTarget }) =>
            onChange(currentTarget.checked ? [...ticked, at] : ticked.filter((other) => other !== at))
          }
        />
      ))}
    </Stack>
  );
}
