/** A rectangle of the window, in pixels. */
export interface Box {
  top: number;
  left: number;
  width: number;
  height: number;
}

/** The window, below what covers its top. */
export interface View {
  top: number;
  width: number;
  height: number;
}

export type Side = 'above' | 'below';

export interface Placed {
  card: { top: number; left: number };
  /** What of the named thing is in sight beside the card. Absent: nothing of it. */
  ring: Box | undefined;
}

/** Between the card and the window's edge, and between the card and what it names. */
const GAP = 12;
/** Less of a thing is no thing that one sees. */
const LEAST = 20;
/** Up to this width of the window, the card is a sheet from edge to edge. */
export const SHEET = 600;

/** Where the card stands so that it covers nothing of the ring around what it names. Of a thing that leaves no room, a part is ringed. */
export function placed(
  named: Box | undefined,
  card: { width: number; height: number },
  view: View,
  first: Side = 'below',
): Placed {
  const isSheet = view.width <= SHEET;
  const edge = isSheet ? 0 : GAP;
  const lowest = view.height - edge - card.height;
  const ring = named && inSight(named, view);
  if (!ring) return { card: { top: lowest, left: view.width - edge - card.width }, ring: undefined };

  const bottom = ring.top + ring.height;
  const highest = Math.max(view.top, 0) + edge;
  const left = between(edge, ring.left, view.width - edge - card.width);
  const sides: Record<Side, number> = isSheet
    ? { below: lowest, above: highest }
    : { below: bottom + GAP, above: ring.top - GAP - card.height };
  const fits: Record<Side, boolean> = {
    below: sides.below >= bottom + GAP && sides.below <= lowest,
    above: sides.above >= highest && sides.above + card.height + GAP <= ring.top,
  };
  for (const side of isSheet || first === 'below' ? (['below', 'above'] as const) : (['above', 'below'] as const))
    if (fits[side]) return { card: { top: sides[side], left }, ring };

  if (!isSheet) {
    const top = between(highest, ring.top, lowest);
    const right = ring.left + ring.width + GAP;
    if (right + card.width + GAP <= view.width) return { card: { top, left: right }, ring };
    if (ring.left - GAP - card.width >= GAP) return { card: { top, left: ring.left - GAP - card.width }, ring };
  }
  const height = lowest - GAP - ring.top;
  if (height >= LEAST) return { card: { top: lowest, left }, ring: { ...ring, height } };
  const top = highest + card.height + GAP;
  const rest = bottom - top;
  return { card: { top: highest, left }, ring: rest >= LEAST ? { ...ring, top, height: rest } : undefined };
}

/** The part of it that the window shows. */
function inSight({ top, left, width, height }: Box, view: View): Box | undefined {
  const from = { top: Math.max(top, view.top), left: Math.max(left, 0) };
  const to = { bottom: Math.min(top + height, view.height), right: Math.min(left + width, view.width) };
  const box = { ...from, width: to.right - from.left, height: to.bottom - from.top };
  return box.width >= LEAST && box.height >= LEAST ? box : undefined;
}

function between(least: number, wanted: number, most: number): number {
  return Math.max(least, Math.min(wanted, most));
}
