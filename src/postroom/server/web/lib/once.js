// Run an action once at a time. Calls during a run cause one more run after it.

export function oneAtATime(act) {
  let running = null;
  let again = false;
  return () => {
    if (running) {
      again = true;
      return running;
    }
    running = (async () => {
      try {
        do {
          again = false;
          await act();
        } while (again);
      } finally {
        running = null;
      }
    })();
    return running;
  };
}
