import { useRouter } from '@tanstack/react-router';
import { useCallback, type MouseEvent, type ReactNode } from 'react';

import textClasses from '../parts/text.module.css';

/** Opens the links below an element within the console, unless the reader wants another tab. */
export function useFollow(): (event: MouseEvent<HTMLElement>) => void {
  const router = useRouter();
  return useCallback(
    (event) => {
      const link = (event.target as HTMLElement).closest('a');
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || event.button !== 0) return;
      event.preventDefault();
      router.history.push(link.pathname + link.search);
    },
    [router],
  );
}

/** A link to a page of this console with its whole address, of `paths`. Lighter than the router's own: tables have many. */
export function Go({ to, children, strong = false }: { to: string; children: ReactNode; strong?: boolean }) {
  const follow = useFollow();
  return (
    // eslint-disable-next-line no-restricted-syntax -- addresses of `paths` begin with `/clusters/`
    <a href={to} onClick={follow} className={textClasses[strong ? 'strong' : 'link']}>
      {children}
    </a>
  );
}
