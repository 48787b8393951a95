// Entries that are being moved, to the done or the snoozed ones or back. A list that the server made before it knew must not bring them back.

export class Moves {
  constructor() {
    this.going = new Map(); // id → the state of which the server is being told
    this.readings = new Set(); // for each list on its way: the moves that it may not have, id → state
  }

  /** Tell the server of a move. */
  async tell(id, state, send) {
    for (const moves of [this.going, ...this.readings]) moves.set(id, state);
    try {
      return await send();
    } catch (error) {
      for (const moves of this.readings) if (moves.get(id) === state) moves.delete(id);
      throw error;
    } finally {
      if (this.going.get(id) === state) this.going.delete(id);
    }
  }

  /** Read a list. Return the answer, and the moves that it may not have: id → state. */
  async read(ask) {
    const moves = new Map(this.going);
    this.readings.add(moves);
    try {
      return [await ask(), moves];
    } finally {
      this.readings.delete(moves);
    }
  }
}
