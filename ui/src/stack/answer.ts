import type { Question } from './custom-queries';

/*
 * What is wrong with an answer, told as it is typed: the checks of `core::form` on the server, which has the last word. What is not
 * certain here is left to that.
 */

/** Bytes of an answer. */
const MOST = 64 << 10;
/** A longer text is matched by the server alone: its engine takes no longer for a text that half matches. */
const MATCHED = 256;
const LEAST_WHOLE = -(2n ** 63n);
const MOST_WHOLE = 2n ** 63n - 1n;

/** The whole number that a text is, as the server reads it. */
export function whole(text: string): bigint | undefined {
  if (!/^[+-]?\d+$/.test(text)) return undefined;
  const number = BigInt(text.replace(/^\+/, ''));
  return number < LEAST_WHOLE || number > MOST_WHOLE ? undefined : number;
}

/** Why a text is no answer to a question, without the text: it may be a secret. */
export function faultOf({ type, values, validation }: Question, text: string): string | undefined {
  if (text.includes('\0') || new TextEncoder().encode(text).length > MOST)
    return `must have at most ${MOST >> 10} KiB and no NUL`;
  if (type === 'INT' && whole(text) === undefined) return 'must be a whole number';
  if (type === 'BOOL' && text !== 'true' && text !== 'false') return 'must be true or false';
  if ((type === 'JSON' || validation?.json === true) && !isJson(text)) return 'must be JSON';
  const choices = (values ?? []).flatMap((value) => value ?? []);
  if (type === 'ENUM' && !choices.includes(text)) return `must be one of ${choices.join(', ')}`;
  const regex = validation?.regex ?? '';
  if (regex !== '' && matches(regex, text) === false) return `must match ${regex}`;
  return undefined;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Whether a text matches; nothing where this engine might not say the same as that of the server, or might not come to an end. */
export function matches(regex: string, text: string): boolean | undefined {
  // Classes such as `\w` have more in them there than letters of ASCII, and sets in sets mean something else.
  if (text.length > MATCHED || !/^[\t\n\x20-\x7e]*$/.test(text) || /&&|--|~~|\[\[/.test(regex) || mayTakeForever(regex))
    return undefined;
  try {
    return new RegExp(regex, 'u').test(text);
  } catch {
    return undefined;
  }
}

/** Repetitions of a pattern that is tried here: where they can share a text in several ways, `a*a*a*`, each one more takes its length again. */
const REPEATS = 3;

/** Whether a group that is repeated can match in several ways: `(a+)+` and `(aa?)+` try them all; or there are many repetitions. */
function mayTakeForever(regex: string): boolean {
  const plain = regex.replace(/\\./g, 'x').replace(/\[[^\]]*\]/g, 'x');
  if ((plain.match(/[*+{]/g) ?? []).length > REPEATS) return true;
  const groups: boolean[] = [];
  let isOpen = false;
  for (let at = 0; at < plain.length; at += 1) {
    const sign = plain.charAt(at);
    if (sign === '(') {
      groups.push(isOpen);
      isOpen = false;
    } else if (sign === ')') {
      if (isOpen && /[*+{]/.test(plain.charAt(at + 1))) return true;
      const wasOpen = groups.pop() === true;
      isOpen ||= wasOpen;
    } else if (/[*+{|]/.test(sign) || (sign === '?' && plain.charAt(at - 1) !== '(')) {
      isOpen = true;
    }
  }
  return false;
}
