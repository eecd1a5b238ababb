import { useCallback, useRef, useState, type RefObject } from 'react';

interface Dialog {
  isOpen: boolean;
  open: () => void;
  close: () => void;
  /** Of the button that opens it. */
  opener: RefObject<HTMLButtonElement | null>;
}

/** A dialog that is there while it is open. When it closes it goes at once, and nothing else gives the focus back to what opened it. */
export function useDialog(): Dialog {
  const [isOpen, setOpen] = useState(false);
  const opener = useRef<HTMLButtonElement>(null);
  const open = useCallback(() => setOpen(true), []);
  const close = useCallback(() => {
    setOpen(false);
    requestAnimationFrame(() => opener.current?.focus());
  }, []);
  return { isOpen, open, close, opener };
}
