// However often it is asked for meanwhile: one at a time, and once more after.

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
