import { useEffect, useState, type RefObject } from 'react';

import { placed, type Placed, type Side } from './place';

const HEADER = 48;
/** Keys by which a reader scrolls. */
const SCROLLING = ['PageUp', 'PageDown', 'Home', 'End', 'ArrowUp', 'ArrowDown'];

/** Where the card is now, and what it names: followed as the page is read, drawn anew, scrolled and resized. */
export function useNamed(selector: string, side: Side | undefined, card: RefObject<HTMLElement | null>): Placed | undefined {
  const [where, setWhere] = useState<Placed>();
  useEffect(() => {
    let frame = 0;
    // Until the reader scrolls, it is brought into sight: what is read above it moves it away.
    let isLed = true;
    const look = () => {
      frame = 0;
      if (!card.current) return;
      const found = document.querySelector<HTMLElement>(selector);
      const inHeader = found?.closest('header') != null;
      if (found && isLed && !inHeader) bring(found);
      const { clientWidth, clientHeight } = document.documentElement;
      const view = { top: inHeader ? 0 : HEADER, width: clientWidth, height: clientHeight };
      const next = placed(found?.getBoundingClientRect(), card.current.getBoundingClientRect(), view, side);
      setWhere((old) => (JSON.stringify(old) === JSON.stringify(next) ? old : next));
    };
    const soon = () => {
      if (frame === 0) frame = requestAnimationFrame(look);
    };
    const letGo = () => {
      isLed = false;
    };
    const press = ({ key }: KeyboardEvent) => {
      if (SCROLLING.includes(key)) letGo();
    };
    const drawn = new MutationObserver(soon);
    drawn.observe(document.body, { childList: true, subtree: true });
    const sized = new ResizeObserver(soon);
    sized.observe(document.body);
    if (card.current) sized.observe(card.current);
    window.addEventListener('scroll', soon, true);
    window.addEventListener('resize', soon);
    window.addEventListener('wheel', letGo, { passive: true });
    window.addEventListener('touchmove', letGo, { passive: true });
    window.addEventListener('keydown', press);
    soon();
    return () => {
      cancelAnimationFrame(frame);
      drawn.disconnect();
      sized.disconnect();
      window.removeEventListener('scroll', soon, true);
      window.removeEventListener('resize', soon);
      window.removeEventListener('wheel', letGo);
      window.removeEventListener('touchmove', letGo);
      window.removeEventListener('keydown', press);
    };
  }, [selector, side, card]);
  return where;
}

/** In the middle, with room for the card on both sides; what is too high for that from its top on. */
function bring(element: HTMLElement): void {
  const { top, bottom, height } = element.getBoundingClientRect();
  const room = window.innerHeight - HEADER;
  if (top >= HEADER && bottom <= HEADER + room / 2) return;
  element.scrollIntoView({ block: height <= room / 3 ? 'center' : 'start' });
}
