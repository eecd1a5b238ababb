import { Button, Group, Stack, Stepper, Text } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { IconGitPullRequest } from '@tabler/icons-react';
import { useEffect, useRef, useState, type SyntheticEvent } from 'react';

import { Effects } from '../fleetplan/preview';
import { ApiError, ask, explain, isLost } from '../lib/client';
import { quoted } from '../lib/text';
import { Command } from '../parts/action';
import { Fields, initialValues, type Values } from '../parts/form';
import { Empty, Fault, Page, Panel, Waiting } from '../parts/page';
import { held } from '../parts/shown';
import { Name, RouteLink } from '../parts/text';
import { paths } from '../paths';
import { sentence } from '../stack/questions';
import {
  askedOf,
  askOf,
  BRANCH,
  commandOf,
  entriesOf,
  lackingOf,
  questionsOf,
  REPOSITORY,
  SECRET,
  secretsOf,
  stepsOf,
} from './asked';
import { formQuery, Open, PlanPreview, Preview, type Asking } from './form-queries';
import { Answers, Confirm, Previewed } from './review';
import { roles } from './roles';

const route = getRouteApi('/self-service/$name');
const within = [{ name: 'Self-service', to: paths.selfService() }];

/** Asks what an automation asks, shows what that would change, and has a pull request opened. */
export function WizardPage() {
  const { name } = route.useParams();
  const query = useQuery(formQuery(name));
  const automation = held(query);
  if (automation == null) {
    return (
      <Page title={name} within={within}>
        {query.isError && <Fault error={query.error} what={name} retry={() => void query.refetch()} />}
        {query.isPending && <Waiting lines={8} />}
        {query.isSuccess && (
          <Empty title="There is no such automation">
            It is gone, or you may not see it. <RouteLink to={paths.selfService()}>All automations</RouteLink>
          </Empty>
        )}
      </Page>
    );
  }
  return (
    <Page
      title={automation.name}
      within={within}
      actions={<RouteLink to={paths.setting('pr-automations', automation.name)}>What it asks and does</RouteLink>}
    >
      {automation.mayCreate === true ? (
        <Wizard key={automation.id} automation={automation} />
      ) : (
        <Refused name={automation.name} />
      )}
    </Page>
  );
}

function Refused({ name }: { name: string }) {
  return (
    <Panel title="You may not open pull requests with it">
      <Stack gap="sm" p="md" maw={760}>
        <Text size="sm">
          You see this automation, and have no right to use it. Whoever may write it lets others do so; this says who that is:
        </Text>
        <Command line={`plural auth explain open ${quoted(`pr-automation/${name}`)}`} />
      </Stack>
    </Panel>
  );
}

/** What the console said of answers, as sentences by their fields; nothing where it said something else. */
function toldOf(automation: Asking, error: Error): Record<string, string> {
  if (!(error instanceof ApiError)) return {};
  const said = (text: string) => sentence(text.replace(/^\w+: /, ''));
  if (error.field === 'identifier') return { [REPOSITORY]: said(error.message) };
  if (error.field === 'secrets') return { [`${SECRET}${entriesOf(automation)[0]?.name ?? ''}`]: said(error.message) };
  if (error.field === 'branch') return { [BRANCH]: said(error.message) };
  return Object.fromEntries(Object.entries(error.answers).map(([name, why]) => [name, sentence(why)]));
}

const REVIEW = 'review';

/** 128 random bits. Pages that come without TLS have no `randomUUID`. */
const newKey = () =>
  Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(16).padStart(8, '0')).join('');

function Wizard({ automation }: { automation: Asking }) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const form = useRef<HTMLFormElement>(null);
  const looksForFault = useRef(false);
  const isNarrow = useMediaQuery('(max-width: 760px)', false, { getInitialValueInEffect: false });
  const all = stepsOf(automation);
  // Answers are in this page alone: not in its address, and in nothing that the browser keeps.
  const [values, setValues] = useState<Values>(() => initialValues(all.flatMap(({ fields }) => fields)));
  const [at, setAt] = useState<string>();
  const [isTried, setTried] = useState(false);
  const [told, setTold] = useState<Record<string, string>>({});
  const [ticked, setTicked] = useState<number[]>([]);
  // Of one filled form: sent once more after an answer was lost, it is the same request.
  const [once, setOnce] = useState(newKey);
  const steps = askedOf(all, values);
  const place = at === REVIEW ? steps.length : Math.max(0, at === undefined ? 0 : steps.findIndex(({ key }) => key === at));
  const step = steps[place];
  const boxes = (automation.confirmation?.checklist ?? []).flatMap((box) => box ?? []);
  const open = boxes.length - ticked.length;
  const isSure = open === 0;

  const go = (to: number, tries = false) => {
    setTried(tries);
    setAt(steps[to]?.key ?? REVIEW);
    looksForFault.current = tries;
  };
  // Once the page with it is drawn.
  useEffect(() => {
    if (!looksForFault.current) return;
    looksForFault.current = false;
    form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  });
  const pageOf = (error: Error) => {
    const said = toldOf(automation, error);
    return steps.findIndex(({ fields }) => fields.some(({ name }) => said[name] !== undefined));
  };
  /** Shows what the console said where it belongs; it has the last word. */
  const refused = (error: Error) => {
    setTold(toldOf(automation, error));
    const first = pageOf(error);
    if (first >= 0) go(first, true);
  };
  const preview = useMutation({
    mutationFn: async () => (await ask(Preview, askOf(automation, values))).previewPullRequest,
    gcTime: 0,
    onError: refused,
  });
  const planning = useMutation({
    mutationFn: async () => (await ask(PlanPreview, askOf(automation, values))).planPullRequestPreview,
    gcTime: 0,
  });
  const opening = useMutation({
    mutationFn: async () => {
      const branch = (values[BRANCH] ?? '').trim();
      const asked = {
        ...askOf(automation, values),
        branch: branch === '' ? null : branch,
        key: once,
        secrets: secretsOf(automation, values),
      };
      return (await ask(Open, asked)).createPullRequest;
    },
    gcTime: 0,
    onError: (error) => {
      if (!isLost(error)) setOnce(newKey());
      refused(error);
    },
    onSuccess: async (made) => {
      await queries.invalidateQueries({ queryKey: ['pull requests'] });
      await navigate({ to: made ? paths.setting('pull-requests', made.id) : paths.settings('pull-requests') });
    },
  });
  const change = (next: Values) => {
    const changed = Object.keys(next).filter((name) => next[name] !== values[name]);
    setTold(Object.fromEntries(Object.entries(told).filter(([name]) => !changed.includes(name))));
    setValues(next);
    setOnce(newKey());
    opening.reset();
    // Another branch changes nothing of what is in it, and neither do values of a Secret.
    if (changed.every((name) => name === BRANCH || name.startsWith(SECRET))) return;
    preview.reset();
    planning.reset();
    setTicked([]);
  };
  const look = () => {
    opening.reset();
    planning.reset();
    // What was confirmed was another look.
    setTicked([]);
    preview.mutate();
  };
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    if (!step) {
      setTried(true);
      if (preview.data && isSure && !opening.isPending) opening.mutate();
      return;
    }
    const gap = (place + 1 < steps.length ? steps.slice(0, place + 1) : steps).findIndex(
      (one) => lackingOf(one, values).length > 0,
    );
    go(gap >= 0 ? gap : place + 1, gap >= 0);
    if (gap < 0 && place + 1 === steps.length) look();
  };
  const isPatch = automation.patch === true;
  // What is said of a field stands there.
  const isAtField = told[BRANCH] !== undefined || (opening.error !== null && pageOf(opening.error) >= 0);
  const failed = isAtField ? null : opening.error;
  const mayOpen = preview.data != null && (preview.data.files ?? []).length > 0;
  return (
    <Panel title={step?.title ?? 'Review'}>
      <form ref={form} onSubmit={submit} noValidate autoComplete="off">
        <Stack gap="md" p="md" maw={step ? 760 : 1200}>
          {place === 0 && (
            <Text size="sm" style={{ whiteSpace: 'pre-line' }}>
              <Name
                of={
                  automation.documentation ??
                  `Opens a pull request${automation.role == null ? '' : `: ${roles[automation.role].toLowerCase()}`}.`
                }
              />
            </Text>
          )}
          <Stepper
            active={place}
            onStepClick={(to) => to < place && !opening.isPending && go(to)}
            size="xs"
            orientation={isNarrow ? 'vertical' : 'horizontal'}
            allowNextStepsSelect={false}
          >
            {[...steps.map(({ title }) => title), 'Review'].map((title) => (
              <Stepper.Step key={title} label={title} />
            ))}
          </Stepper>
          {step ? (
            <Fields
              key={step.key}
              fields={step.fields}
              values={values}
              onChange={change}
              lacks={isTried ? lackingOf(step, values) : []}
              told={told}
            />
          ) : (
            <>
              <Answers questions={questionsOf(automation)} values={values} />
              {preview.isPending && (
                <>
                  <Text size="sm" c="dimmed">
                    The console makes the changes on the newest commit, and writes nothing.
                  </Text>
                  <Waiting lines={6} />
                </>
              )}
              {preview.isError && <Fault error={preview.error} what="what would change" retry={look} />}
              {preview.isIdle && (
                <Button variant="default" w="fit-content" onClick={look}>
                  Show what would change
                </Button>
              )}
              {preview.data && (
                <Previewed automation={automation} given={secretsOf(automation, values)} preview={preview.data} again={look} />
              )}
              {mayOpen && <Effects planning={planning} plan={() => planning.mutate()} />}
              {mayOpen && !isPatch && (
                <>
                  <Fields
                    fields={[
                      {
                        name: BRANCH,
                        label: 'Branch of the pull request',
                        hint: 'One of its own when empty.',
                        placeholder: 'add-shop',
                      },
                    ]}
                    values={values}
                    onChange={change}
                    lacks={[]}
                    told={told}
                  />
                  <Confirm automation={automation} ticked={ticked} onChange={setTicked} isTried={isTried} />
                </>
              )}
            </>
          )}
          <Command line={commandOf(step || isPatch ? 'preview' : 'create', automation, values)} />
          {failed && <Failed error={failed} automation={automation.name} />}
          <Group gap="sm">
            {place > 0 && (
              <Button variant="default" disabled={opening.isPending} onClick={() => go(place - 1)}>
                Back
              </Button>
            )}
            {step && <Button type="submit">{place + 1 < steps.length ? 'Next' : 'Show what would change'}</Button>}
            {!step && mayOpen && !isPatch && (
              <Button type="submit" loading={opening.isPending} leftSection={<IconGitPullRequest size={14} />}>
                Open the pull request
              </Button>
            )}
          </Group>
          {!step && mayOpen && isTried && !isSure && (
            <Text size="sm" role="alert" style={{ color: 'var(--tone-bad)' }}>
              {open === 1 ? '1 box above is' : `${open} boxes above are`} not ticked.
            </Text>
          )}
        </Stack>
      </form>
    </Panel>
  );
}

function Failed({ error, automation }: { error: Error; automation: string }) {
  const told = explain(error);
  return (
    <Text size="sm" role="alert" style={{ color: 'var(--tone-bad)' }}>
      <Name of={told.what} />.{' '}
      {isLost(error) ? (
        <>
          It may have been recorded all the same: look at the{' '}
          <RouteLink to={paths.settings('pull-requests')} search={{ automation }}>
            pull requests with it
          </RouteLink>{' '}
          before another try. With the same answers, another try opens no second one.
        </>
      ) : (
        told.next
      )}
    </Text>
  );
}
