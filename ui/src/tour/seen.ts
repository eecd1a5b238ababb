/** This browser keeps who saw the tour or did not want it: the user's id, and nothing else of theirs. */
const key = (user: string) => `plural-tour:${user}`;

/** Whether the tour was never offered to this user here. A browser that keeps nothing is not asked anew on each page. */
export function isNew(user: string): boolean {
  try {
    return localStorage.getItem(key(user)) === null;
  } catch {
    return false;
  }
}

/** The tour is not offered to this user again. */
export function remember(user: string): void {
  try {
    localStorage.setItem(key(user), 'seen');
  } catch {
    // It keeps nothing: `isNew` is false there.
  }
}
