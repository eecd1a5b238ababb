import type { PrAutomationAttributes, PrAutomationQuery } from '../generated/graphql';
import type { Field, Values } from '../parts/values';

export type Known = NonNullable<PrAutomationQuery['prAutomation']>;

/** Attributes that the console takes together, and the fields of the form that say them. */
export interface Part {
  fields: Field[];
  give: (values: Values) => PrAutomationAttributes;
}

export const fieldsOfParts = (parts: Part[]): Field[] => parts.flatMap(({ fields }) => fields);

/** What is other than the form began with. A part that nobody changed is not sent, and stays what it is, whoever changes it meanwhile. */
export function changesOf(parts: Part[], values: Values, begun: Values): PrAutomationAttributes {
  const isChanged = ({ fields }: Part) => fields.some(({ name }) => (values[name] ?? '') !== (begun[name] ?? ''));
  return Object.assign({}, ...parts.filter(isChanged).map(({ give }) => give(values))) as PrAutomationAttributes;
}

/** What a new one is given: each part of which something is said. */
export const allOf = (parts: Part[], values: Values): PrAutomationAttributes => changesOf(parts, values, {});
